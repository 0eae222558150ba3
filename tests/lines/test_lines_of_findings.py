"""Findings name file, line and function: for each rule that asks for lines, by samples and by recorded calls."""

from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from faulty_traces import CASES
from kineto import Trace, collective
from lines.lines_jobs import LOADER, finding, recorded, samples, told
from machine.environment_jobs import CASES as SETTINGS
from machine.environment_jobs import plain_job
from remedies.single_gpu_jobs import CASES as SINGLE_GPU
from remedies.test_seldom_operators import RULE as SELDOM
from test_loader_passes import LOADING_BEYOND_WORKERS, PASSES_LEFT, STARTS

from diagnose.metrics import units
from diagnose.rule import load_rules

ITEM = "<built-in method item of Tensor object at 0x7f03>"
WORK = "data.py(31): work"
SAMPLED = {  # rule -> what the function `work` does in its fault, and what it calls
    "python-host": ("step", None),
    "data-wait": ("loading", None),
    "text-work-in-the-loop": ("step", None),
    "sync-every-step": ("step", "item"),
    "anomaly-detection": ("backward", "backward"),
}
RECORDED = {  # rule -> the calls, the outermost first
    "python-host": (WORK,),
    "data-wait": (LOADER, WORK),
    "text-work-in-the-loop": (WORK,),
    "sync-every-step": (WORK, ITEM),
    "gc-pauses": (WORK,),
}
OTHER = ("other", "backward", "mul", 60)


def faulty(rule: str) -> Trace:
    """The job with the fault of the rule."""
    if rule in SINGLE_GPU:
        return SINGLE_GPU[rule].faulty  # type: ignore[no-any-return]
    if rule in SETTINGS:
        return SETTINGS[rule].job or plain_job()
    (job,) = CASES[rule].files(True)
    return job  # type: ignore[return-value]


def record_of(rule: str) -> dict[str, Any]:
    cases = SINGLE_GPU if rule in SINGLE_GPU else SETTINGS
    return dict(cases[rule].record) if rule in cases else {}


def test_every_rule_with_lines_is_in_a_test_here() -> None:
    with_lines = {rule.id for rule in load_rules((), units()) if rule.lines}

    of_loading = {"bursts-of-data-wait", "late-batches", STARTS, LOADING_BEYOND_WORKERS, PASSES_LEFT}
    assert with_lines == {*SAMPLED, *RECORDED, *of_loading, "straggler", "periodic-phase", SELDOM}


@pytest.mark.parametrize("rule", SAMPLED)
def test_samples_name_the_function_that_does_what_the_fault_is_about(rule: str, tmp_path: Path) -> None:
    doing, calls = SAMPLED[rule]
    field = samples(("work", doing, calls, 120), OTHER, ("rare", doing, calls, 3))

    found = finding(recorded(tmp_path, [faulty(rule)], {**record_of(rule), "stack_samples": field}), rule)

    assert told(found) == ["work data.py:31 0.66"]
    assert found.where[0].of == "183 samples of the training thread"
    assert (found.where_because, found.where_capture_next) == ("", "")


@pytest.mark.parametrize("rule", RECORDED)
def test_recorded_calls_name_it_too(rule: str, tmp_path: Path) -> None:
    found = finding(recorded(tmp_path, [with_calls(faulty(rule), *RECORDED[rule])]), rule)

    assert (found.where[0].function, found.where[0].file, found.where[0].line) == ("work", "data.py", 31)


def with_calls(job: Trace, *names: str) -> Trace:
    """The job, whose every step runs inside these calls of the training thread."""
    job = deepcopy(job)
    for mark in [event for event in job._events if event["name"].startswith("ProfilerStep")]:
        job._events += [{**mark, "cat": "python_function", "name": name, "args": {}} for name in names]
    return job


@pytest.mark.parametrize("rule", ["python-host", "data-wait"])
def test_a_capture_that_never_sampled_says_nothing_of_lines(rule: str, tmp_path: Path) -> None:
    found = finding(recorded(tmp_path, [faulty(rule)]), rule)

    assert (found.where, found.where_because, found.where_capture_next) == ((), "", "")


def test_a_line_that_is_unknown_has_its_reason_and_what_to_do(tmp_path: Path) -> None:
    field = samples(("work", "step", "item", 11))

    found = finding(recorded(tmp_path, [faulty("sync-every-step")], {"stack_samples": field}), "sync-every-step")

    assert found.where == ()
    assert found.where_because == (
        "11 of 11 samples of the training thread in 10 steps show your code: fewer than 30 are too few to name a line"
    )
    assert found.where_capture_next.startswith("capture with diagnose run in a run of at least 55 steps")


def test_where_nothing_is_done_that_the_rule_is_about_no_line_is_named(tmp_path: Path) -> None:
    record = {"stack_samples": samples(OTHER, ("work", "step", None, 1))}

    found = finding(recorded(tmp_path, [faulty("sync-every-step")], record), "sync-every-step")

    assert found.where == ()
    assert found.where_because == (
        "no line of your code that this is about takes 2.0 % of 61 samples of the training thread"
    )


def test_samples_do_not_show_the_collector(tmp_path: Path) -> None:
    record = {"stack_samples": samples(("work", "step", None, 120))}

    found = finding(recorded(tmp_path, [faulty("gc-pauses")], record), "gc-pauses")

    assert (found.where, found.where_because) == ((), "samples of the stack do not show the garbage collector")


def test_workers_that_were_not_sampled_are_told(tmp_path: Path) -> None:
    rule = "bursts-of-data-wait"
    record = {**record_of(rule), "stack_samples": samples(("work", "loading", None, 120))}

    found = finding(recorded(tmp_path, [faulty(rule)], record), rule)

    assert found.where_because == "loader workers load the batches, and their stacks are not sampled"


LOADS = (("collate > words", "loading", None, 60), ("collate > pads", "loading", None, 20))
BESIDE = [("train_step", "backward", None, 90), ("train_step > reads", "loading", None, 30)]


def test_loading_is_named_by_the_innermost_functions_as_diagnose_data_names_it(tmp_path: Path) -> None:
    found = finding(recorded(tmp_path, [faulty("data-wait")], {"stack_samples": samples(*LOADS, *BESIDE)}), "data-wait")

    assert told(found) == ["words data.py:31 0.30", "reads data.py:31 0.15", "pads data.py:31 0.10"]


WORKS = (("score > words", "step", None, 60), ("score > pads", "step", None, 20))
OTHERS = [("train_step", "backward", None, 90), ("train_step > reads", "step", None, 30)]


def test_a_function_has_the_time_of_those_it_calls_and_says_in_which_most_of_it_is(tmp_path: Path) -> None:
    """`main` is around everything, and `train_step` does other things: neither is what works."""
    field = samples(*WORKS, *OTHERS)

    found = finding(recorded(tmp_path, [faulty("python-host")], {"stack_samples": field}), "python-host")

    assert told(found) == ["score data.py:31 0.40", "reads data.py:31 0.15"]
    assert [line.most_in and line.most_in.function for line in found.where] == ["words", None]


def test_a_loop_that_only_loads_does_not_hide_what_loads(tmp_path: Path) -> None:
    field = samples(("collate", "loading", None, 170), ("waits", "loading", None, 30))

    found = finding(recorded(tmp_path, [faulty("data-wait")], {"stack_samples": field}), "data-wait")

    assert told(found) == ["collate data.py:31 0.85", "waits data.py:31 0.15"]


def test_a_decorator_hides_none_of_the_functions_that_it_is_around(tmp_path: Path) -> None:
    timed = samples(("7 > timed > accuracy", "step", None, 130), ("9 > timed > log", "step", None, 40), OTHER)

    found = finding(recorded(tmp_path, [faulty("python-host")], {"stack_samples": timed}), "python-host")

    assert told(found) == ["accuracy data.py:31 0.57", "log data.py:31 0.17"]


def late_job() -> list[Trace]:
    """Two ranks that run the same operators; the second does something more on its host."""
    ranks = [Trace(rank=rank, world=2) for rank in (0, 1)]
    for _ in range(6):
        with ExitStack() as opened:
            for trace in ranks:
                opened.enter_context(trace.step())
                for name in ("aten::embedding", "aten::index", "aten::view", "aten::permute") * 3:
                    trace.cpu_op(name, 250)
            ranks[1].host(3000)
            collective(ranks, "allreduce", 1 << 22, 100, wait=True)
            for trace in ranks:
                trace.sync(stream=None)
    return ranks


def test_a_stragglers_lines_are_those_beyond_the_other_ranks(tmp_path: Path) -> None:
    both = ("collate", "loading", None, 80)
    usual = samples(both, ("waits", "backward", None, 120))
    late = samples(both, ("waits", "backward", None, 40), ("only_on_rank_1", "step", None, 80))

    found = finding(recorded(tmp_path, late_job(), {"stack_samples": usual}, {"stack_samples": late}), "straggler")

    assert told(found) == ["only_on_rank_1 data.py:31 0.40"]
    assert found.where[0].of == "200 samples of the training thread of rank 1, beyond the other ranks"


def test_what_a_late_rank_does_alone_has_the_time_of_what_it_calls(tmp_path: Path) -> None:
    usual = samples(("train_step > waits", "backward", None, 200))
    late = samples(("train_step > waits", "backward", None, 100), ("train_step > logs > dumps", "step", None, 100))

    found = finding(recorded(tmp_path, late_job(), {"stack_samples": usual}, {"stack_samples": late}), "straggler")

    assert told(found) == ["logs data.py:31 0.50"]
    assert found.where[0].most_in is not None
    assert found.where[0].most_in.function == "dumps"


def test_a_late_rank_alone_is_compared_with_nobody(tmp_path: Path) -> None:
    late = samples(("only_on_rank_1", "step", None, 80))

    found = finding(recorded(tmp_path, late_job(), {}, {"stack_samples": late}), "straggler")

    assert found.where_because == "no other rank's stack was sampled or recorded to compare with"


def test_the_next_change_has_the_lines_too_and_the_section_all_functions(tmp_path: Path) -> None:
    record = {"stack_samples": samples(("work", "loading", None, 120), OTHER)}

    answer = recorded(tmp_path, [faulty("data-wait")], record)

    assert answer.next.rule == "data-wait"
    assert [line.function for line in answer.next.where] == ["work"]
    assert answer.user_code is not None
    assert [(f.function, f.line, round(f.share, 2), round(f.total_share, 2)) for f in answer.user_code.functions] == [
        ("work", 31, 0.67, 0.67),
        ("other", 31, 0.33, 0.33),
        ("main", 12, 0.0, 1.0),
    ]
    assert answer.user_code.other_share == pytest.approx(0)
    assert answer.user_code.cost_share == pytest.approx(0.002)


def test_hostile_samples_leave_a_report(tmp_path: Path) -> None:
    name = "\x1b[31m\u202e</script>"
    stack = {"frames": [[name, 2**31, name]] * 40, "doing": name, "calls": name, "samples": 2**48}
    record = {"stack_samples": samples() | {"stacks": [stack] * 200, "wall_ms": 0, "steps": 2**48, "cost_ms": 1e9}}

    answer = recorded(tmp_path, [faulty("python-host")], record)

    assert answer.user_code is not None
    assert answer.user_code.functions[0].share == 1
    assert answer.user_code.functions[0].doing == "step"
    assert answer.user_code.cost_share is None
    assert [entry for entry in answer.not_judged if "defect" in entry.because] == []
