"""Predictions in the Diagnosis and in the report: the plan, and why nothing is predicted."""

import io
import json
from math import inf, prod
from pathlib import Path

import jsonschema
import pytest
from analysed import GEMM, capture_failed
from kineto import Trace, collective
from msgspec.structs import replace
from rich.console import Console
from whatif.predicted import device_bound, loading, saved, written

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis
from diagnose.report.text import render
from diagnose.report.views.gains import gain

SAYING_ATTENTION = "kernels = { eager-attention = [0.25, 0.5] }"
SAYING_OPTIMIZER = "kernels = { optimizer = [0.4, 0.5] }"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    return folder


def test_findings_and_plan_carry_ranges_and_what_they_rest_on(tmp_path: Path, rules: Path) -> None:
    written(rules, "slow-attention", SAYING_ATTENTION, "numerics = true", 'own_key = "x"')
    written(rules, "slow-optimizer", SAYING_OPTIMIZER, 'effort = "code"')

    found = analyze(saved(tmp_path / "t", device_bound()), options=Options(rules_dirs=(rules,)))

    plan = {step.rule: step for step in found.plan}
    assert plan["slow-attention"].numerics
    assert plan["slow-optimizer"].effort == "code"
    assert found.replay.valid
    assert found.replay.measured_ns == pytest.approx(10e6, rel=0.01)
    finding = next(f for f in found.findings if f.rule == "slow-attention")
    assert finding.predicted_speedup == pytest.approx((1.25, 10 / 7), rel=0.01)
    assert finding.assumes == "the factors of the test"
    jsonschema.validate(json.loads(found.to_json()), Diagnosis.schema())


def test_the_cumulative_gain_counts_what_two_changes_are_about_once(tmp_path: Path, rules: Path) -> None:
    written(rules, "slow-attention", SAYING_ATTENTION)
    written(rules, "slow-optimizer", SAYING_OPTIMIZER)

    found = analyze(saved(tmp_path / "t", device_bound()), options=Options(rules_dirs=(rules,)))

    assert {"unfused-attention", "slow-attention"} <= {step.rule for step in found.plan}
    product = prod((step.predicted_speedup or (1, None))[1] or inf for step in found.plan)
    assert found.plan[0].cumulative_speedup == found.plan[0].predicted_speedup
    assert [step.cumulative_speedup[1] for step in found.plan] == sorted(
        step.cumulative_speedup[1] for step in found.plan
    )
    assert found.plan[-1].cumulative_speedup[1] < product, "attention goes once"


def test_the_finding_that_buys_most_names_all_that_its_change_cures(tmp_path: Path, rules: Path) -> None:
    written(rules, "slow-attention", SAYING_ATTENTION, sets="use_liger_kernel = true")
    written(rules, "slow-optimizer", SAYING_OPTIMIZER, sets="use_liger_kernel = true")

    found = analyze(saved(tmp_path / "t", device_bound()), options=Options(rules_dirs=(rules,)))
    findings = {finding.rule: finding for finding in found.findings}
    first, part = findings["slow-attention"], findings["slow-optimizer"]

    assert "cures all of these, and the gain is that of all together: slow-attention, slow-optimizer." in first.says
    assert first.predicted_speedup == pytest.approx((10 / 7.5, 10 / 6.4), rel=0.01), "4 and 1 ms of 10"
    assert part.says == "It is there."
    assert part.predicted_speedup == pytest.approx((10 / 9.5, 10 / 9.4), rel=0.01), "1 ms of 10"
    assert [step.rule for step in found.plan if step.rule.startswith("slow-")] == ["slow-attention"]


def shared_gpu() -> Trace:
    """Kernels that start 5 ms after their launch, at random: another process has the GPU meanwhile."""
    job = Trace()
    for number in range(5):
        with job.step():
            for i in range(6):
                job.launch(GEMM, 400, after=job.now + (6_000_000 if (i * 7 + number) % 3 else 3_000_000))
            job.sync()
    return job


def shown(diagnosis: Diagnosis, details: bool = False) -> str:
    out = io.StringIO()
    render(diagnosis, Console(file=out, width=300, color_system=None), details=details)
    return out.getvalue()


def withheld(diagnosis: Diagnosis) -> str:
    """The report from where it says that gains are withheld, line breaks left out."""
    return " ".join(shown(diagnosis, details=True).partition("no gain that needs a replay is predicted:")[2].split())


def test_gains_are_withheld_where_the_replay_misses_the_measured_step(tmp_path: Path, rules: Path) -> None:
    written(rules, "slow-products", "kernels = { matrix = [0.5, 0.6] }")

    found = analyze(saved(tmp_path / "t", shared_gpu()), options=Options(rules_dirs=(rules,)))

    assert found.replay.strict_error is not None
    assert found.replay.strict_error > 0.05
    assert not found.replay.valid
    assert "another process on the GPU" in found.replay.because
    assert next(f for f in found.findings if f.rule == "slow-products").predicted_speedup is None
    assert "slow-products" not in [step.rule for step in found.plan]
    assert found.replay.because in withheld(found)


def test_gains_are_withheld_where_the_gpu_was_not_recorded(tmp_path: Path, rules: Path) -> None:
    written(rules, "slow-loader", "host = { data-wait = [0, 0] }")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "rank0.json").write_text(json.dumps(capture_failed(loading(4, 10))))

    found = analyze(tmp_path / "t", options=Options(rules_dirs=(rules,)))

    assert "what the GPU did was not recorded" in found.replay.because
    assert next(f for f in found.findings if f.rule == "slow-loader").predicted_speedup is None
    assert found.replay.because in withheld(found)
    jsonschema.validate(json.loads(found.to_json()), Diagnosis.schema())


def test_a_trace_without_a_step_still_follows_the_schema(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    job.cpu_op("aten::mm", 0)

    found = analyze(saved(tmp_path / "t", job))

    assert not found.replay.valid
    jsonschema.validate(json.loads(found.to_json()), Diagnosis.schema())


def of_two(slow_rank: int) -> list[Trace]:
    """Two ranks; one loads for 6 ms before its 4 ms of kernels, and the other waits for it in a collective."""
    jobs = [Trace(rank=rank, world=2) for rank in range(2)]
    for _ in range(5):
        annotations = [job.step() for job in jobs]
        for job, annotation in zip(jobs, annotations, strict=True):
            annotation.__enter__()
            job.loader(ms=6 if job.rank == slow_rank else 0.1)
            for _ in range(4):
                job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 1000)
        collective(jobs, "allreduce", 1 << 20, 100, wait=True)
        for job, annotation in zip(jobs, annotations, strict=True):
            job.launch(GEMM, 10)
            job.item()
            annotation.__exit__(None, None, None)
    return jobs


@pytest.mark.parametrize("slow_rank", [0, 1])
def test_a_straggler_is_not_the_rank_that_is_replayed(slow_rank: int, tmp_path: Path, rules: Path) -> None:
    written(rules, "slow-loader", "host = { data-wait = [0, 0] }")

    found = analyze(saved(tmp_path / "t", *of_two(slow_rank)), options=Options(rules_dirs=(rules,)))

    assert [late.rank for late in found.stragglers] == [slow_rank]
    own = next(f for f in found.findings if f.rule == "slow-loader").predicted_speedup
    assert own is not None
    assert own[1] < 1.05, "the typical rank loads for 0.1 ms"
    straggling = next(f for f in found.findings if f.rule == "straggler").predicted_speedup
    assert straggling is not None
    assert straggling[0] > 1.4


def test_the_report_shows_the_plan_in_order_and_what_it_buys_together(tmp_path: Path, rules: Path) -> None:
    written(rules, "slow-attention", SAYING_ATTENTION)
    written(rules, "slow-optimizer", SAYING_OPTIMIZER, "numerics = true")

    found = analyze(saved(tmp_path / "t", device_bound()), options=Options(rules_dirs=(rules,)))
    page = shown(replace(found, plan=found.plan[:2]))

    first, second = (step.rule for step in found.plan[:2])
    assert [step.numerics for step in found.plan[:2]] == [False, True]
    assert page.index("next ") < page.index("plan ") < page.index(f"2. {second}")
    low, likely, high = found.plan[1].together or (0, 0, 0)
    assert gain((low, high), likely) in page
    assert "; can change results\n" in page[page.index(f"2. {second}") :]
    assert page.index(first) < page.index(second)
