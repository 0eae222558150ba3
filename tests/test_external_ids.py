"""Activities that no correlation links: what the external ids tell of their launches, operators and steps."""

from collections.abc import Callable
from typing import Any

import pytest
from analysed import ADD, GEMM, attribution, causes, content, facts, timeline
from kineto import Trace

from diagnose.facts import Unknown
from diagnose.predict.replay.replay import NOT_LINKED, Replay
from diagnose.roofline.owners import operators
from diagnose.timeline import Timeline

Events = list[dict[str, Any]]
RUNTIME = "cuda_runtime"


def training() -> Trace:
    """Three steps; in each an operator of one kernel, one of two, and a forward function inside another operator."""
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], GEMM, 20)
            job.op("aten::add", None, [(GEMM, 20), (ADD, 5)], host_us=40)
            job.op("aten::mul", None, ADD, 5, host_us=60)
    return job


def with_events(job: Trace, change: Callable[[Events], Events]) -> dict[str, Any]:
    built = content(job)
    return {**built, "traceEvents": change([{**e, "args": dict(e.get("args", {}))} for e in built["traceEvents"]])}


def without_correlation(events: Events) -> Events:
    for event in events:
        event["args"].pop("correlation", None)
    return events


def without_runtime(events: Events) -> Events:
    return [event for event in without_correlation(events) if event.get("cat") != RUNTIME]


def correlation_as_external_id(events: Events) -> Events:
    """As Kineto writes it for ROCm: calls and activities have their correlation as `External id`, and it alone."""
    for event in events:
        if "correlation" in event["args"]:
            event["args"]["External id"] = event["args"].pop("correlation")
    return events


def owners(found: Timeline) -> list[str]:
    names = [found.trace.names[name] for name in found.trace.name.tolist()]
    return [names[row] if row >= 0 else "" for row in operators(found).tolist()]


@pytest.mark.parametrize("change", [without_correlation, without_runtime, correlation_as_external_id])
def test_steps_and_operators_are_those_of_the_linked_trace(change: Callable[[Events], Events]) -> None:
    linked, told = timeline(training()), timeline(with_events(training(), change))

    assert owners(told) == owners(linked) == ["aten::mm", "aten::add", "aten::add", "aten::mul"] * 3
    assert told.steps.source == linked.steps.source == "ProfilerStep"
    assert told.steps.device.tolist() == linked.steps.device.tolist()


def test_a_correlation_that_stands_as_external_id_links_as_one() -> None:
    linked, told = timeline(training()), timeline(with_events(training(), correlation_as_external_id))

    assert told.gpu.launch_start.tolist() == linked.gpu.launch_start.tolist()
    assert (told.gpu.launch >= 0).all()
    assert not told.is_unlinked
    assert (told.launches, told.lost_launches) == (12, 0)


def test_numbers_of_another_series_name_no_operator() -> None:
    """Without calls to link, the correlations that activities carry are no numbers of operators."""

    def shuffled(events: Events) -> Events:
        events = [e for e in correlation_as_external_id(events) if e.get("cat") != RUNTIME]
        operators = [e for e in events if e.get("cat") == "cpu_op"]
        for number, event in enumerate(reversed(operators), start=1):
            event["args"]["External id"] = number
        return events

    found = timeline(with_events(training(), shuffled))

    assert set(owners(found)) == {""}
    assert (found.gpu.launcher == -1).all()


def test_a_call_is_linked_only_where_its_number_is_its_own() -> None:
    found = timeline(with_events(training(), without_correlation))

    assert (found.gpu.launch >= 0).tolist() == [True, False, False, True] * 3
    assert [found.trace.names[found.trace.name[row]] for row in found.gpu.launcher[[1, 2]]] == ["aten::add"] * 2


def test_a_trace_with_correlations_is_left_as_it_is() -> None:
    linked = timeline(training())

    assert (linked.gpu.launch >= 0).all()
    assert linked.gpu.launcher is linked.gpu.launch


def test_without_runtime_calls_idle_time_inside_operators_is_theirs() -> None:
    linked = causes(training())
    told = causes(with_events(training(), without_runtime))

    assert told["dispatch"] > told["python"]
    assert told["dispatch"] == pytest.approx(linked["dispatch"] + linked["launch-latency"], rel=0.2)


def test_without_runtime_calls_waits_and_allocations_are_unknown_and_nothing_is_replayed() -> None:
    told = with_events(training(), without_runtime)
    found = facts(told)

    assert isinstance(found["sync_share"].value, Unknown)
    assert isinstance(found["allocation_share"].value, Unknown)
    assert isinstance(found["dispatch_share"].value, float)
    assert Replay.of(timeline(told), attribution(told)).because == NOT_LINKED
    assert Replay.of(timeline(training()), attribution(training())).valid
