"""No remedy saves more than what it changes takes: for every shipped rule, on samples, real traces and drawn steps."""

import os
import re
from pathlib import Path

import pytest
from analysed import GEMM
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto import Trace
from more_traces import VARIABLE as MORE
from more_traces import more_trace
from read_once import diagnosis_of
from whatif.predicted import predictor, rule, steps

from diagnose.diagnosis import Diagnosis, Finding
from diagnose.predict.whatif import COLD
from diagnose.trace import read
from diagnose.trace.vocabulary import OPTIMIZER_STEP

SAMPLES = Path(__file__).parents[2] / "sample_traces"
REAL = "DIAGNOSE_REAL_TRACES"
ROUNDING = 1e-3
CALL_US = 8  # what the test's traces add to the host time of each launch


def given_paths() -> list[Path]:
    paths = [path for path in SAMPLES.iterdir() if path.name != "dumps"]
    samples = [path for path in paths if path.is_dir() or path.name.endswith(".json.gz")]
    real = Path(os.environ[REAL]).iterdir() if REAL in os.environ else []
    more = Path(os.environ[MORE]).glob("resnet*") if MORE in os.environ else []
    jobs = [path for path in real if path.is_dir() and path.name not in ("damaged", "nanogpt-h100-pair")]
    return sorted((*(path for path in samples if "__" not in path.name), *jobs, *more))


def saved_share(finding: Finding, end: int) -> float:
    """The share of the step that goes at one end of the range."""
    assert finding.predicted_speedup is not None
    factor = finding.predicted_speedup[end]
    return 1.0 if factor is None else 1 - 1 / factor


@pytest.fixture(scope="module", params=given_paths(), ids=lambda path: path.name)
def found(request: pytest.FixtureRequest) -> Diagnosis:
    return diagnosis_of(request.param)


def test_a_finding_promises_what_the_ledger_books_and_explains_the_rest(found: Diagnosis) -> None:
    for finding in found.findings:
        if finding.predicted_speedup is None or finding.booked_share is None or finding.hidden_share is None:
            continue
        low, high = saved_share(finding, 0), saved_share(finding, 1)

        assert low <= finding.booked_share + ROUNDING, finding.rule
        of_replay = finding.booked_share + finding.hidden_share
        assert high <= of_replay * (1.25 if COLD in finding.assumes else 1.0) + ROUNDING, finding.rule
        assert low <= high


def test_findings_are_in_the_order_of_what_they_promise_among_those_of_one_severity(found: Diagnosis) -> None:
    for severity in ("critical", "warning", "info"):
        alike = [f for f in found.findings if f.severity == severity and f.predicted_speedup and f.class_ != "validity"]
        for leads in (True, False):
            of_class = [f for f in alike if (f"{f.class_}-bound" == found.verdict.class_) is leads]
            promised = [f.predicted_speedup[0] for f in of_class if f.predicted_speedup]

            assert promised == sorted(promised, reverse=True)


def uneven(loading_ms: float, kernels_us: float, host_us: float) -> Trace:
    """Steps that load, then launch kernels, every fourth from inside the optimizer's step."""

    def step(job: Trace) -> None:
        job.loader(ms=loading_ms)
        for _ in range(12):
            job.op("aten::mm", [[512, 512], [512, 512]], GEMM, kernels_us, host_us=host_us)
        with job.optimizer():
            for _ in range(4):
                job.op("aten::add_", [[512, 512]], GEMM, kernels_us / 4, host_us=host_us)

    return steps(step, 3)


LENGTH = st.integers(1, 600)
SHARE = st.floats(0, 0.99)  # at 1 nothing is said of the host, and fusing spares launches
LEFT = st.floats(0.01, 1)  # a kernel of which nothing is left goes with its launch


@settings(max_examples=40, deadline=None, database=None)
@given(loading_us=LENGTH, kernels_us=LENGTH, host_us=LENGTH, launches=SHARE, optimizer=SHARE, kernels=LEFT)
def test_the_replay_saves_no_more_than_the_work_that_goes(
    loading_us: int, kernels_us: int, host_us: int, launches: float, optimizer: float, kernels: float
) -> None:
    """Host time of the model's and of the optimizer's launches, and kernel time: each is counted once, fused or not."""
    found = predictor(uneven(loading_us / 1000, kernels_us, host_us))
    remedy = rule(
        f"kernels = {{ optimizer = [{kernels:.6f}, 1.0] }}\nfuses = ['optimizer']\n"
        f"launches = [{launches:.6f}, 1.0]\nhost = {{ optimizer-host = [{optimizer:.6f}, 1.0] }}"
    )
    high = (found.predict(remedy) or (1.0, 1.0))[1] or 1.0
    saved_us = found.replay.step_ns() * (1 - 1 / high) / 1000
    of_model, of_update = 12 * (host_us + CALL_US) * (1 - launches), 4 * (host_us + CALL_US) * (1 - optimizer)

    assert saved_us <= of_model + of_update + kernels_us * (1 - kernels) + CALL_US


OPTIMIZERS = ("single-tensor-optimizer", "unfused-optimizer", "host-optimizer")


def test_what_a_shared_change_finds_absent_is_no_evidence_of_it() -> None:
    """torch.compile cures launches and elementwise kernels; the unfused norms that it looks for are not there."""
    launches = next(
        f for f in diagnosis_of(more_trace("resnet50-v100-383a.json.gz")).findings if f.rule == "launch-bound"
    )
    shares = {item.fact: item.value for item in launches.evidence if item.unit == "share"}

    assert "elementwise_share" in shares
    assert all(shares.values())


def test_an_optimizer_rule_saves_no_more_than_its_step_takes() -> None:
    """Host and device together; zero_grad and the rest of the host are not the optimizer's."""
    path = more_trace("resnet50-v100-383a.json.gz")
    found = diagnosis_of(path)
    trace = read(path)
    ranges = trace.named(re.compile(OPTIMIZER_STEP).match)
    kernels_ns = sum(entry.ns for entry in found.ledger if entry.cause == "optimizer") / found.steps.count
    step_ns = float(trace.dur[ranges].mean()) + kernels_ns

    assert found.findings[0].rule == "data-wait"
    for finding in found.findings:
        if finding.rule in OPTIMIZERS:
            assert saved_share(finding, 1) * found.replay.measured_ns <= step_ns
