"""A job whose steps the profiler makes 3.4 times as long: nothing that such steps say of shares is stated, anywhere."""

import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from analysed import digest
from click.testing import CliRunner
from kineto import Trace
from lines.lines_jobs import finding, recorded
from msgspec.structs import replace
from read_once import diagnosis_of
from report.printed import printed
from rich.console import Console
from whatif.predicted import loading

import diagnose.commands.analyze.command as analyze_command
from diagnose.analysis import analyze
from diagnose.attribution.causes import DISTORTED
from diagnose.cli import main
from diagnose.commands.compare.comparing import compare
from diagnose.diagnosis import Diagnosis
from diagnose.facts import HOST_STEP, STEP, spoken
from diagnose.ranks.distorted import distortion_of
from diagnose.report.html.page import page
from diagnose.report.markdown.document import markdown
from diagnose.report.text import render
from diagnose.report.views.brief import brief
from diagnose.report.views.summary import About
from diagnose.trace.distortion import Overhead

SAMPLES = Path(__file__).parent.parent / "sample_traces"
LONGER = 3.4
WAITS = {"data_wait": 0.7, "optimizer": 0.05}  # of the step without the profiler, by range
each = pytest.mark.parametrize(
    "sample", ["cpu-slow-loader.json.gz", "gloo-slow-rank", "synthetic-tiny-kernels.json.gz", "cpu-python-host.json.gz"]
)


def profiled(sample: str, folder: Path, longer: float = LONGER, ranges: Mapping[str, float] = {}) -> Diagnosis:
    """The sample, with a record of steps without the profiler that are so much shorter, and of their ranges."""
    source = SAMPLES / sample
    folder.mkdir()
    for rank, trace in enumerate(sorted(source.glob("*.json.gz")) if source.is_dir() else [source]):
        shutil.copy(trace, folder / f"rank{rank}.json.gz")
    alone = analyze(folder)
    ns = round(step_ns(alone) / longer)
    steps = {
        "control_before_ns": [ns] * 3,
        "unprofiled_host_ns": [ns] * 3,
        "unprofiled_ranges_ns": {f"diagnose.{name}": [round(share * ns)] * 3 for name, share in ranges.items()},
    }
    for rank in alone.ranks:
        record = {"overhead_factor": longer, "steps": steps}
        (folder / f"capture-rank{rank.rank}.json").write_text(json.dumps(record))
    return analyze(folder)


def step_ns(found: Diagnosis) -> float:
    return (found.steps.device_time_ns or found.steps.time_ns) / found.steps.count


def forms(found: Diagnosis) -> dict[str, str]:
    """Every form of the report."""
    out = io.StringIO()
    render(found, Console(file=out, width=100), details=True)
    return {
        "text": out.getvalue(),
        "html": page(found, About("test")),
        "markdown": markdown(found, About("test")),
        "json": found.to_json(),
        "line": brief(found),
    }


@each
def test_the_ledger_is_of_steps_without_the_profiler_and_adds_up(sample: str, tmp_path: Path) -> None:
    plain = diagnosis_of(SAMPLES / sample)
    found = profiled(sample, tmp_path / "run")

    assert found.steps.distortion == LONGER
    assert step_ns(found) == pytest.approx(step_ns(plain) / LONGER, rel=1e-6)
    assert sum(entry.ns for entry in found.ledger) == (found.steps.device_time_ns or found.steps.time_ns)
    assert sum(part.points for part in found.waterfall) == pytest.approx(100)
    assert next(entry.share for entry in found.ledger if entry.cause == DISTORTED) > 0.2


def test_the_step_without_the_profiler_is_the_same_one_everywhere(tmp_path: Path) -> None:
    run = tmp_path / "run"
    profiled("cpu-slow-loader.json.gz", run, ranges=WAITS)
    record = json.loads((run / "capture-rank0.json").read_text())
    ns = record["steps"]["control_before_ns"][0]
    for times in (record["steps"]["control_before_ns"], record["steps"]["unprofiled_host_ns"]):
        times[-1] = 5 * ns  # one step that saves
    (run / "capture-rank0.json").write_text(json.dumps(record))
    told = " ".join(printed(analyze(run), details=True).split())

    step = spoken(ns, "ns")
    assert f"without the profiler the host's step is {step}: " in told
    assert f"causes host step without the profiler, {step} (median)" in told


@each
def test_no_share_of_the_step_is_a_fact_a_finding_a_plan_or_a_negative(sample: str, tmp_path: Path) -> None:
    found = profiled(sample, tmp_path / "run")

    assert found.verdict.class_ == "undecided"
    assert "the profiler makes steps 3.40x as long" in found.verdict.because
    told = {fact.name for fact in found.facts if fact.of in (STEP, HOST_STEP) and fact.value is not None}
    assert told <= {"device_to_host_share"}  # copies of the device, which the profiler does not lengthen
    assert [evidence for f in found.findings for evidence in f.evidence if evidence.of in (STEP, HOST_STEP)] == []
    assert [n.because for n in found.not_advised if "step" in n.because] == []
    assert [step.rule for step in found.plan if step.predicted_speedup] == []
    assert not found.replay.valid
    assert found.stragglers == ()
    assert found.host_operators == ()
    assert all(rank.verdict.class_ == "undecided" for rank in found.ranks)


@each
def test_no_form_of_the_report_states_a_share_of_the_profiled_step(sample: str, tmp_path: Path) -> None:
    waits = [e for e in diagnosis_of(SAMPLES / sample).ledger if e.class_ in ("data", "host", "communication")]
    profiled_shares = {spoken(entry.share, "share") for entry in waits if entry.share > 0.02}
    found = profiled(sample, tmp_path / "run")

    assert profiled_shares
    for name, text in forms(found).items():
        assert [share for share in profiled_shares if share in text] == [], name
    said = forms(found)
    assert said["line"].startswith("no verdict: ")
    assert all("3.40x" in said[name] for name in ("text", "html", "markdown"))


def test_mfu_is_of_the_step_without_the_profiler(tmp_path: Path) -> None:
    plain = diagnosis_of(SAMPLES / "synthetic-tiny-kernels.json.gz").mfu.value
    found = profiled("synthetic-tiny-kernels.json.gz", tmp_path / "run").mfu.value

    assert plain is not None
    assert found == pytest.approx(plain * LONGER)


def test_what_ranges_without_the_profiler_tell_is_told(tmp_path: Path) -> None:
    found = profiled("cpu-slow-loader.json.gz", tmp_path / "run", ranges=WAITS)

    assert found.verdict.class_ == "data-bound"
    assert {e.cause: round(e.share, 3) for e in found.ledger} == {"data-wait": 0.7, DISTORTED: 0.3}
    assert [(f.rule, f.predicted_speedup) for f in found.findings if f.class_ == "data"] == [("data-wait", None)]
    assert [(part.range, round(part.share, 3)) for part in found.steps.light_parts] == [
        ("diagnose.data_wait", 0.7),
        ("diagnose.optimizer", 0.05),
        ("", 0.25),
    ]
    assert "data wait 70.0 %, optimizer 5.0 %, anything else 25.0 %" in " ".join(printed(found, details=True).split())


def test_the_optimizer_of_a_distorted_job_is_told_by_its_range(tmp_path: Path) -> None:
    found = profiled("cpu-slow-loader.json.gz", tmp_path / "run", ranges={"optimizer": 0.4})

    assert fact_of(found, "cpu_optimizer_share") == pytest.approx(0.4, abs=0.001)
    assert fact_of(found, "optimizer_host_share") is None


def fact_of(found: Diagnosis, name: str) -> object:
    return next(fact.value for fact in found.facts if fact.name == name)


def test_a_little_data_wait_without_the_profiler_speaks_against_workers(tmp_path: Path) -> None:
    found = profiled("cpu-slow-loader.json.gz", tmp_path / "run", ranges={"data_wait": 0.01})

    assert "1.0 % of the host step is waiting for the next batch" in [n.because for n in found.not_advised]


@pytest.mark.parametrize("longer", [1.1, 1.5])
def test_a_step_slowed_by_half_keeps_its_shares_and_has_its_parts_without_the_profiler_beside(
    longer: float, tmp_path: Path
) -> None:
    plain = diagnosis_of(SAMPLES / "cpu-slow-loader.json.gz")
    found = profiled("cpu-slow-loader.json.gz", tmp_path / "run", longer, WAITS)

    assert found.steps.distortion is None
    assert [(e.cause, e.ns) for e in found.ledger] == [(e.cause, e.ns) for e in plain.ledger]
    assert ("without the profiler the host's step is" in " ".join(printed(found, details=True).split())) is (
        longer > 1.2
    )


def test_the_critical_path_of_a_distorted_step_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiled("cpu-slow-loader.json.gz", tmp_path / "run")
    monkeypatch.setattr(analyze_command, "refuse_without_hta", lambda: None)
    said = CliRunner().invoke(main, ["analyze", str(tmp_path / "run"), "--critical-path"])

    assert said.exit_code == 0
    assert "not told: the profiler makes steps 3.40x as long" in " ".join(said.stdout.split())


def test_a_distorted_run_is_not_held_against_steps_under_the_profiler(tmp_path: Path) -> None:
    found = compare(
        diagnosis_of(SAMPLES / "cpu-slow-loader.json.gz"), profiled("cpu-slow-loader.json.gz", tmp_path / "run")
    )

    assert (found.verdict, found.speedup) == ("not_comparable", None)
    assert "with the profiler and those of the other without" in found.because


@pytest.mark.parametrize(("factors", "distortion"), [((1.1, 1.2, 5.0, 1.1), None), ((4.0, 1.2, 5.0, 4.0), 4.0)])
def test_the_median_rank_tells_whether_a_job_is_distorted(factors: tuple[float, ...], distortion: float | None) -> None:
    one = digest(loading(data_ms=1, device_ms=1))

    assert distortion_of([replace(one, overhead=Overhead(factor)) for factor in factors]) == distortion


def test_causes_of_a_distorted_run_are_not_compared_and_its_speed_is(tmp_path: Path) -> None:
    before = profiled("cpu-slow-loader.json.gz", tmp_path / "a", 1.1)
    after = profiled("cpu-slow-loader.json.gz", tmp_path / "b", LONGER)
    found = compare(before, after)

    assert found.speedup is not None
    assert found.speedup[1] == pytest.approx(LONGER / 1.1, rel=1e-3)
    assert (found.difference, found.kernels) == ((), ())
    assert [n.because for n in found.not_compared if n.what == "causes"] == [
        "the profiler makes the steps of B several times as long: shares are its own"
    ]


@pytest.mark.parametrize(("operators", "us", "action"), [
    (2000, 4, "give each operator call more work"),
    (20, 400, "capture steps with longer operators"),
])  # fmt: skip
def test_steps_of_tiny_operators_are_told_what_calling_them_costs(
    tmp_path: Path, operators: int, us: float, action: str
) -> None:
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            for _ in range(operators):
                job.cpu_op("aten::relu", us)
    ns = operators * us * 1000 / LONGER
    steps = {"control_before_ns": [ns] * 3, "active_ns": [ns * LONGER] * 4, "unprofiled_host_ns": [ns] * 3}
    answer = recorded(tmp_path, [job], {"overhead_factor": LONGER, "steps": steps})

    assert finding(answer, "profiler-distortion").action == action
    assert answer.verdict.withheld
