"""A real pipeline with sequences of different lengths and a heavier last stage; its README says where it is from."""

from pathlib import Path

from diagnose.analysis import analyze

PIPELINE = Path(__file__).parent / "jobs" / "bytedance-pipeline"


def test_uneven_micro_batches_and_the_heavier_stage_are_told_and_no_rank_is_accused() -> None:
    found = analyze(PIPELINE)

    speedups = {finding.rule: finding.predicted_speedup for finding in found.findings}
    assert found.postmortem is not None
    (heavier,) = (stage for stage in found.postmortem.stages if stage.heavier)
    assert found.stragglers == ()
    assert heavier.ranks == tuple(range(8, 16))
    assert "257.4 ms more work per micro-batch than the other stages (1.52 times)" in heavier.heavier
    assert found.next.rule == "uneven-stages"
    assert speedups["uneven-stages"]
    assert speedups["rotating-stragglers"]
    assert "straggler" not in speedups
