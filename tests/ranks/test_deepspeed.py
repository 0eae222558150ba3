"""DeepSpeed's ZeRO: what the engine of a real job divides, and what is advised by it, in the words of its config."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from distributed_traces import GIB, MIB, Ddp, gathers, passes, reduced, train
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding

JOB = Path(__file__).parent / "jobs" / "zero.py"
PARAMETERS = 4 * (512 * 512 + 3 * 512)
GPU_MEMORY = 16 * GIB
real = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs deepspeed")


def record(stage: int, parameters: int = 100_000_000, accumulated: int = 1, **more: Any) -> dict[str, Any]:
    zero = {"stage": stage, "offload_optimizer": "none", "zero_hpz_partition_size": 1, **more}
    return {
        "world_size": 2,
        "zero": zero,
        "training_loop": "DeepSpeed",
        "training_arguments": {"gradient_accumulation_steps": accumulated},
        "model": {"parameters": parameters},
    }


def answer(folder: Path, step: Ddp, held: dict[str, Any], reserved: int = GPU_MEMORY) -> Diagnosis:
    for job in train(step, reserved=reserved):
        job.write(folder / f"rank{job.rank}.json")
        (folder / f"capture-rank{job.rank}.json").write_text(json.dumps(held))
    return analyze(folder)


def finding(diagnosed: Diagnosis, rule: str) -> Finding | None:
    return next((each for each in diagnosed.findings if each.rule == rule), None)


def values(diagnosed: Diagnosis) -> dict[str, Any]:
    return {fact.name: fact.value for fact in diagnosed.facts}


def reductions(job: Trace) -> None:
    """Gradients are scattered after the backward pass, for a third of the step."""
    passes(job, "diagnose.forward")
    reduced(job, 64 * MIB, 1000, "_reduce_scatter_base", wait=True)


@pytest.mark.parametrize(("stage", "bytes_of_each"), [(2, 14), (3, 16)])
def test_a_model_that_fits_is_not_to_be_sharded_so_far(tmp_path: Path, stage: int, bytes_of_each: int) -> None:
    diagnosed = answer(tmp_path, reductions, record(stage))
    found = finding(diagnosed, "sharded-though-it-fits")

    assert found is not None
    assert 'ds_config.json: {"zero_optimization": {"stage": 1}}' in found.do
    assert "FULL_SHARD" not in found.do
    assert values(diagnosed)["unsharded_state_bytes"] == bytes_of_each * 100_000_000 / 2


@pytest.mark.parametrize(
    ("stage", "parameters"),
    [(1, 100_000_000), (2, 10_000_000_000)],
    ids=["ZeRO-1 shards no more than it should", "it does not fit"],
)
def test_what_is_sharded_for_a_reason_stays_so(tmp_path: Path, stage: int, parameters: int) -> None:
    diagnosed = answer(tmp_path, reductions, record(stage, parameters))

    assert finding(diagnosed, "sharded-though-it-fits") is None
    assert "sharded-though-it-fits" not in {each.rule for each in diagnosed.not_judged}


def test_the_gain_grows_with_the_reductions_that_an_update_would_save(tmp_path: Path) -> None:
    (tmp_path / "once").mkdir()
    (tmp_path / "often").mkdir()
    once, often = (
        answer(tmp_path / name, reductions, record(2, accumulated=steps)) for name, steps in (("once", 1), ("often", 8))
    )

    assert values(once)["unsharded_traffic_factor"] == 1
    assert values(often)["unsharded_traffic_factor"] == pytest.approx(2 / 9)


def test_offloaded_states_have_to_fit_as_well(tmp_path: Path) -> None:
    diagnosed = answer(tmp_path, reductions, record(2, offload_optimizer="cpu"))

    assert values(diagnosed)["unsharded_state_bytes"] == (14 / 2 + 12 / 2) * 100_000_000


def test_parameters_gathered_twice_are_kept_by_stage_2(tmp_path: Path) -> None:
    diagnosed = answer(tmp_path, gathers(20, 400), record(3, 10_000_000_000))
    found = finding(diagnosed, "parameters-gathered-twice")

    assert found is not None
    assert 'ds_config.json: {"zero_optimization": {"stage": 2}}' in found.do
    assert "reshard_after_forward" not in found.do


def test_the_third_stage_shows_in_a_trace_without_a_record(tmp_path: Path) -> None:
    def step(job: Trace) -> None:
        job.event("cpu_op", "PreBackwardFunctionForModule", 5)
        reductions(job)

    diagnosed = answer(tmp_path, step, {})

    assert values(diagnosed)["zero_stage"] == 3


@pytest.mark.slow
@real
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_real_engine_says_what_it_divides(tmp_path: Path, stage: int) -> None:
    torchrun = ["torchrun", "--standalone", "--nproc_per_node", "2", str(JOB), str(stage), "offload"]
    command = [sys.executable, "-m", "diagnose", "run", "--out", str(tmp_path / "out"), "--", *torchrun]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert (tmp_path / "out" / "capture-rank1.json").is_file(), done.stderr
    held = json.loads((tmp_path / "out" / "capture-rank1.json").read_text())
    found = values(analyze(tmp_path / "out"))

    assert held["zero"].items() >= {"stage": stage, "offload_optimizer": "cpu", "reduce_bucket_size": 1_000_000}.items()
    assert held["model"]["parameters"] == PARAMETERS
    assert (found["zero_stage"], found["offloads_optimizer"]) == (stage, True)
    assert (found["shards_gradients"], found["shards_parameters"]) == (stage > 1, stage > 2)
    assert found["unsharded_state_bytes"] == {1: 12, 2: 14, 3: 16}[stage] * PARAMETERS / 2
