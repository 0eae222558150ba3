"""No gain above 1 / (1 - share) of what its change removes: for every rule, on drawn steps, samples and real traces."""

import os
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from analysed import GEMM
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kineto import Trace
from more_traces import VARIABLE as MORE
from read_once import diagnosis_of
from whatif.predicted import loading, predictor, rule, saved

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding
from diagnose.predict.earned import REPLAY_ERROR, ROUNDING, Earned, evidence_share, most_by, share_of
from diagnose.predict.whatif import Predictor
from diagnose.rule import Rule

SAMPLES = Path(__file__).parents[2] / "sample_traces"
FOLDERS = [os.environ[name] for name in ("DIAGNOSE_REAL_TRACES", MORE) if name in os.environ]
NO_TRACES = ("damaged", "nanogpt-h100-pair", "dumps")  # no one job each


def traces() -> list[Path]:
    each = [path for folder in (SAMPLES, *map(Path, FOLDERS)) for path in folder.iterdir()]
    return sorted(p for p in each if p.name not in NO_TRACES and (p.is_dir() or p.name.endswith(".json.gz")))


@pytest.fixture(scope="module", params=[p for p in traces() if "__" not in p.name], ids=lambda path: path.name)
def found(request: pytest.FixtureRequest) -> Diagnosis:
    return diagnosis_of(request.param)


def is_earned(finding: Finding) -> bool:
    """Whether the high end is within what the evidence shows, or the report names what goes beyond it."""
    high = (finding.predicted_speedup or (1.0, None))[1]
    if high is None:
        return True
    earned = Earned(evidence_share(finding.evidence), max(share_of(high), 0.0))
    return not earned.exceeds_evidence or earned.named("")[:-2] in finding.assumes


def test_a_gain_is_of_what_the_evidence_shows_or_names_what_else_goes(found: Diagnosis) -> None:
    assert [finding.rule for finding in found.findings if not is_earned(finding)] == []


def test_the_gain_of_a_plan_leaves_the_work_that_none_of_its_changes_touches(found: Diagnosis) -> None:
    ends = [step.cumulative_speedup for step in found.plan if step.cumulative_speedup is not None]

    assert all(low <= (inf if high is None else high) <= 1 / REPLAY_ERROR for low, high in ends if high is not None)
    assert all(one[0] <= other[0] * (1 + ROUNDING) for one, other in pairwise(ends)), "a change that slows is undone"
    assert all((one[1] or inf) <= (other[1] or inf) * (1 + ROUNDING) for one, other in pairwise(ends))


def on_the_host(waits_ms: Sequence[float], work_ms: Sequence[float], python_ms: float) -> Predictor:
    """Steps without a GPU that wait for data, compute, and run Python."""
    job = Trace(gpu=None)
    for wait, work in zip(waits_ms, work_ms, strict=False):
        with job.step():
            job.loader(ms=wait)
            job.cpu_op("aten::mm", work * 1000)
            job.host(python_ms * 1000)
    return predictor(job)


def waits(best: float, worst: float) -> Rule:
    return rule(f"host = {{ data-wait = [{best:.4f}, {worst:.4f}] }}", "waits")


def python(best: float, worst: float) -> Rule:
    return rule(f"host = {{ python = [{best:.4f}, {worst:.4f}] }}", "python")


MS = st.lists(st.floats(0.5, 50), min_size=2, max_size=6)
FACTOR = st.floats(0, 1)


@settings(max_examples=40, deadline=None, database=None)
@given(waits_ms=MS, work_ms=MS, python_ms=st.floats(0.1, 20), best=FACTOR, worst=FACTOR)
def test_of_steps_that_differ_no_more_goes_than_the_mean_step_spends_there(
    waits_ms: list[float], work_ms: list[float], python_ms: float, best: float, worst: float
) -> None:
    found = on_the_host(waits_ms, work_ms, python_ms)
    step, data, code = found.replay.step_ns(), spent(found, "data-wait"), spent(found, "python")

    alone = found.predict(waits(min(best, worst), max(best, worst))) or (1.0, None)
    after = found.predict(python(0.0, 1.0), [rule("host = { data-wait = [0.0, 0.0] }", "no-waits")]) or (1.0, None)
    whole = found.together([waits(min(best, worst), max(best, worst)), python(0.0, 1.0)]) or (1.0, None)

    assert alone[0] <= (alone[1] or inf)
    assert (alone[1] or 1.0) <= most_by(data / step) * (1 + ROUNDING)
    assert (after[1] or 1.0) <= (step - data) / (step - data - code) * (1 + ROUNDING)
    assert (whole[1] or 1.0) <= most_by((data + code) / step) * (1 + ROUNDING)


@settings(max_examples=12, deadline=None, database=None)
@given(waits_ms=MS, work_ms=MS, python_ms=st.floats(0.1, 20), gpu=st.booleans())
def test_of_drawn_steps_every_shipped_rule_says_what_its_gain_rests_on(
    waits_ms: list[float], work_ms: list[float], python_ms: float, gpu: bool
) -> None:
    job = Trace() if gpu else Trace(gpu=None)
    for wait, work in zip(waits_ms, work_ms, strict=False):
        with job.step():
            job.loader(ms=wait)
            job.host(python_ms * 1000)
            for _ in range(3):
                job.cpu_op("aten::mul", work * 100)
                if gpu:
                    job.op("aten::mm", [[512, 512], [512, 512]], GEMM, work * 300, host_us=50)
    with TemporaryDirectory() as folder:
        findings = analyze(saved(Path(folder), job)).findings

    assume(any(finding.predicted_speedup for finding in findings))
    assert [finding.rule for finding in findings if not is_earned(finding)] == []


def spent(found: Predictor, cause: str) -> float:
    return found.replay.recorded[cause].ns if cause in found.replay.recorded else 0.0


@settings(max_examples=25, deadline=None, database=None)
@given(load_ms=st.integers(0, 20), kernel_ms=st.integers(1, 20), best=FACTOR, worst=FACTOR)
def test_with_a_gpu_no_more_goes_than_what_is_booked_and_what_hides(
    load_ms: int, kernel_ms: int, best: float, worst: float
) -> None:
    found = predictor(loading(load_ms, kernel_ms, 3))
    change = rule(f"kernels = {{ matrix = [{min(best, worst):.4f}, {max(best, worst):.4f}] }}")

    gain, saving = found.predict(change), found.saving(change)

    assert (
        gain is None
        or saving is None
        or gain[1] is None
        or (share_of(gain[1]) <= saving.booked + saving.hidden + ROUNDING)
    )


@pytest.mark.parametrize(("removes", "ends"), [
    ("0.957 * step_count / step_count", (1.0, 1 / 0.043)),  # a true 23x
    ("0.99 * step_count / step_count", (1.0, 1 / REPLAY_ERROR)),
    ("1.0 * step_count / step_count", (1.0, 1 / REPLAY_ERROR)),
])  # fmt: skip
def test_a_very_large_gain_rests_on_what_remains_or_on_what_a_trace_resolves(
    removes: str, ends: tuple[float, float]
) -> None:
    assert predictor(loading(4, 10)).predict(rule(f'removes = "{removes}"')) == pytest.approx(ends)


def test_a_sure_gain_whose_remainder_is_not_resolved_has_no_upper_end() -> None:
    found, change = on_the_host([99.5] * 6, [0.5] * 6, 0.0), waits(0.0, 0.5)

    low, high = found.predict(change) or (0.0, 0.0)

    assert high is None
    assert low == pytest.approx(1 / (1 - 0.5 * 0.995), rel=0.02)
    assert "nothing is promised beyond" in found.assumes(change)


def test_a_plan_with_a_share_that_no_replay_shows_has_no_gain_together() -> None:
    found, removed = predictor(loading(4, 10)), rule('removes = "0.2 * step_count / step_count"', "removed")

    assert found.together([waits(0.0, 0.0)]) == found.predict(waits(0.0, 0.0))
    assert found.together([waits(0.0, 0.0), removed]) is None
