"""A patch put to the test: the next report sets what was predicted of it beside what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Applied, Diagnosis, NotApplied, Patch
from diagnose.facts import Fact, Facts, Unknown
from diagnose.judge.applied import applied_of
from diagnose.patch.expected import expected_of
from diagnose.patch.patch_file import read
from diagnose.probes.apply.job_patch import JobPatch
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.views.applied import applied_line, got_slower
from diagnose.trace.record import CaptureRecord

WORKERS = {"dataloader": {"num_workers": 4}}
EXPECTED = {
    "rule": "data-wait",
    "speedup": [1.29, 1.5],
    "step": "device step",
    "step_ns": 40e6,
    "unprofiled_step_ns": 37e6,
    "samples_per_step": None,
}


def facts(**values: float | bool | None) -> Facts:
    """The facts of the run with the patch; None is unknown."""
    given = {"has_gpu": True, "step_time_ns": 30e6, "step_noise_share": 0.01, **values}
    units = {name: "share" for name in given if name.endswith("_share")}
    return {n: Fact(n, Unknown("not seen", None) if v is None else v, units.get(n, "")) for n, v in given.items()}


def applied(expected: Any = EXPECTED, in_use: Any = WORKERS, refused: Any = (), **values: Any) -> Applied:
    record = {"applied": in_use, "refused": list(refused), "expected": expected}
    found = applied_of(CaptureRecord(record), facts(**values))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("after_ms", "told"),
    [
        (28.1, "predicted 1.29-1.50x, measured 1.32x (step without the profiler 37.0 ms -> 28.1 ms): as predicted"),
        (
            33.0,
            "predicted 1.29-1.50x, measured 1.12x (step without the profiler 37.0 ms -> 33.0 ms): less than predicted",
        ),
        (
            20.0,
            "predicted 1.29-1.50x, measured 1.85x (step without the profiler 37.0 ms -> 20.0 ms): more than predicted",
        ),
        (
            40.0,
            "predicted 1.29-1.50x, measured 0.93x (step without the profiler 37.0 ms -> 40.0 ms): slower than before",
        ),
    ],
)
def test_one_line_sets_the_measurement_beside_the_prediction(after_ms: float, told: str) -> None:
    found = applied(unprofiled_step_time_ns=after_ms * 1e6)

    assert applied_line(found) == f"num_workers=4: {told}"
    assert got_slower(found) == (after_ms > 37)


def test_steps_with_the_profiler_are_compared_with_such_steps() -> None:
    found = applied({**EXPECTED, "unprofiled_step_ns": None}, unprofiled_step_time_ns=28e6)

    assert (found.step, found.before_ns, found.after_ns) == ("device step", 40e6, 30e6)
    assert found.measured_speedup == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("expected", "values", "why"),
    [
        (None, {}, "the patch came without the diagnosis that proposes it"),
        ({**EXPECTED, "step_ns": None, "unprofiled_step_ns": None}, {}, "the step time before is not known"),
        ({**EXPECTED, "unprofiled_step_ns": None}, {"has_gpu": False}, "or is of other steps"),
        ({**EXPECTED, "unprofiled_step_ns": None}, {"step_time_ns": None}, "the step time with the patch is not known"),
    ],
    ids=["a bare patch", "no time before", "a GPU before and none now", "no time now"],
)
def test_what_cannot_be_compared_says_why(expected: Any, values: Any, why: str) -> None:
    found = applied(expected, **values)

    assert found.measured_speedup is None
    assert "measured unknown: " in applied_line(found)
    assert why in applied_line(found)


def test_a_larger_batch_is_compared_by_the_sample() -> None:
    batch = {"training_arguments": {"per_device_train_batch_size": 16}}
    expected = {**EXPECTED, "samples_per_step": 8.0}

    found = applied(expected, batch, micro_batch_size=16, accumulation_steps=1, unprofiled_step_time_ns=50e6)
    unknown = applied(expected, batch, unprofiled_step_time_ns=50e6)

    assert found.measured_speedup == pytest.approx(2 * 37 / 50)
    assert "how many samples a step has is not known" in unknown.because


def test_a_change_over_the_run_is_compared_by_its_mean_step() -> None:
    expected = {**EXPECTED, "over": "run", "run_step_ns": 80e6}

    found = applied(expected, run_step_time_ns=55e6, run_step_error_share=0.01, unprofiled_step_time_ns=37e6)
    unknown = applied(expected, unprofiled_step_time_ns=37e6)

    assert applied_line(found) == (
        "num_workers=4: predicted 1.29-1.50x, measured 1.45x (mean step of the run 80.0 ms -> 55.0 ms): as predicted"
    )
    assert found.measured == pytest.approx((80 / 55 / 1.0368, 80 / 55, 80 / 55 * 1.0368), rel=1e-3)
    assert unknown.measured_speedup is None
    assert "the step time with the patch is not known" in unknown.because


def test_noise_that_holds_no_effect_as_well_as_the_promise_judges_nothing() -> None:
    found = applied(unprofiled_step_time_ns=33e6, step_noise_share=0.2)

    assert applied_line(found).endswith(
        ": cannot be judged (the noise of the runs, 0.93-1.35x, holds no effect as well as the promise)"
    )
    assert not got_slower(found)


def test_a_slower_step_within_the_noise_is_less_than_predicted_and_no_slowdown() -> None:
    found = applied(unprofiled_step_time_ns=38e6, step_noise_share=0.08)

    assert applied_line(found).endswith(
        "measured 0.97x (step without the profiler 37.0 ms -> 38.0 ms): less than predicted"
    )
    assert not got_slower(found)


@pytest.mark.parametrize(
    ("before", "after", "after_ms", "told"),
    [
        (0.421, 0.43, 26.0, "cannot be judged (nothing was cured: padding_share 42.1 % -> 43.0 %)"),
        (0.421, 0.43, 36.9, "less than predicted (nothing was cured: padding_share 42.1 % -> 43.0 %)"),
        (0.421, 0.08, 26.0, "as predicted"),
    ],
)
def test_a_prediction_is_kept_only_where_its_evidence_moved(
    before: float, after: float, after_ms: float, told: str
) -> None:
    found = applied(
        {**EXPECTED, "facts": {"padding_share": before}}, padding_share=after, unprofiled_step_time_ns=after_ms * 1e6
    )

    assert applied_line(found).endswith(told)


@pytest.mark.parametrize(
    ("waited_before", "ends"),
    [
        (
            0.65,
            ": cannot be judged (something else changed, without which it may be 0.71x: core_wait_share 65.0 % -> "
            "31.0 %)",
        ),
        (0.38, ": as predicted"),
    ],
)
def test_a_machine_that_changed_beside_the_job_judges_nothing_that_depends_on_it(
    waited_before: float, ends: str
) -> None:
    expected = {**EXPECTED, "facts": {"core_wait_share": waited_before}}
    found = applied(expected, core_wait_share=0.31, unprofiled_step_time_ns=26.3e6)

    assert applied_line(found).endswith(ends)


@pytest.mark.parametrize(("after_ms", "ends"), [(30.0, "-> 30.0 ms)"), (40.0, "-> 40.0 ms): slower than before")])
def test_a_part_of_a_patch_is_not_held_to_what_was_predicted_of_the_whole(after_ms: float, ends: str) -> None:
    refused = [{"target": "dataloader", "key": "num_workers", "because": "they keep a state"}]
    found = applied(
        in_use={"dataloader": {"pin_memory": True}}, refused=refused, unprofiled_step_time_ns=after_ms * 1e6
    )

    in_use, left_out = applied_line(found).split("; not applied")
    assert in_use.startswith("pin_memory=True: predicted 1.29-1.50x of the whole patch, measured ")
    assert in_use.endswith(ends)
    assert left_out == ": num_workers (they keep a state)"


def test_what_was_refused_is_in_the_report() -> None:
    refused = [{"target": "dataloader", "key": "num_workers", "because": "each worker would repeat the data"}]
    found = applied(in_use={}, refused=refused)

    assert found.refused == (NotApplied(key="num_workers", because="each worker would repeat the data"),)
    assert applied_line(found) == (
        "nothing of the patch is in use; not applied: num_workers (each worker would repeat the data)"
    )


def test_a_run_without_a_patch_says_nothing() -> None:
    assert applied_of(CaptureRecord({"applied": None}), facts()) is None
    assert applied_line(None) == ""
    assert not got_slower(None)


def waiting(folder: Path, loader_ms: float, record: dict[str, Any]) -> Diagnosis:
    folder.mkdir()
    job = Trace()
    for _ in range(5):
        with job.step():
            job.loader(ms=loader_ms)
            job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
            job.sync()
    job.write(folder / "rank0.json.gz")
    (folder / "capture-rank0.json").write_text(json.dumps(record))
    return analyze(folder)


@pytest.mark.parametrize(("loader_ms", "told"), [(0.1, "measured 3."), (9, "slower than before")])
def test_the_diagnosis_travels_with_the_patch_into_every_report_of_the_next_run(
    tmp_path: Path, loader_ms: float, told: str
) -> None:
    before = waiting(tmp_path / "before", 5, {})
    (tmp_path / "before.json").write_text(before.to_json())
    request = json.loads(read(str(tmp_path / "before.json")).to_json())
    patch = JobPatch(request["set"], request["refused"], request["expected"])
    for target, own in request["set"].items():
        patch.applied(target, own)

    after = waiting(tmp_path / "after", loader_ms, patch.facts())

    assert after.applied is not None
    assert after.applied.rule == "data-wait"
    assert after.applied.predicted_speedup == before.findings[0].predicted_speedup
    assert after.applied.patches == (before.findings[0].patch,)
    line = applied_line(after.applied)
    assert told in line
    assert json.loads(after.to_json())["applied"]["measured_speedup"] == after.applied.measured_speedup
    assert "Applied:" in markdown(after, About("1"))
    assert f"{after.applied.measured_speedup:.2f}x" in page(after, About("1"))


def test_the_prediction_is_that_of_the_change_alone() -> None:
    plan = [{"rule": "a", "predicted_speedup": [1.1, 1.2]}]
    findings = [{"rule": "a", "predicted_speedup": [1.3, 1.4], "patch": None}]

    assert expected_of({"plan": plan, "findings": findings}, "a")["speedup"] == [1.3, 1.4]
    assert expected_of({"plan": plan}, "a")["speedup"] == [1.1, 1.2]


def test_a_best_case_that_is_not_known_stays_so() -> None:
    plan = [{"rule": "a", "predicted_speedup": [1.1, None]}, {"rule": "b", "predicted_speedup": [None, 1.1]}]

    assert expected_of({"plan": plan}, "a")["speedup"] == [1.1, None]
    assert expected_of({"plan": plan}, "b")["speedup"] is None


@pytest.mark.parametrize("given", [{}, {"findings": 3, "facts": [1], "steps": None}, {"findings": [{"rule": "a"}]}])
def test_a_diagnosis_of_another_shape_predicts_nothing(given: dict[str, Any]) -> None:
    found = expected_of(given, "a")

    assert (found["speedup"], found["step_ns"], found["samples_per_step"]) == (None, None, None)
    assert applied(found).measured_speedup is None


def test_the_patch_of_an_applied_change_is_spelled_as_it_is_in_use() -> None:
    assert applied(in_use=WORKERS).patches == (Patch(target="dataloader", set={"num_workers": 4}),)
