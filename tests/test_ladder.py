"""benchmarks/ladder.py: which rungs it runs, what it computes of them, and how it ends without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs

pytestmark = pytest.mark.capture

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
H100 = {"name": "NVIDIA H100 80GB HBM3", "total_memory_bytes": 85_018_279_936, "multiprocessors": 132}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_equal_rows_are_one_rung_and_what_ran_out_of_memory_is_a_rung_too() -> None:
    from ladder import rungs

    found = rungs(BENCHMARKS / "ladder.csv")

    assert [rung.settings["micro_batch"] for rung in found] == [6, 7, 5, 5, 7, 8, 7, 14, 14, 37]
    assert found[0].name == "15.1 (chapter 15), 1 (Llama lab log)"
    assert [row["outcome"] for row in found[1].recorded] == ["oom", "oom"]
    assert [row["tokens_per_s_per_gpu"] for row in found[-1].recorded] == ["48081", "48229", "48098.99"]
    assert found[-1].settings["liger"] is True


def test_flops_of_a_token_by_each_convention() -> None:
    from ladder import MODEL, flops_by_convention

    assert flops_by_convention(MODEL, 1024) == {
        "palm": 7_817_134_080,
        "causal": 7_615_807_488,
        "6n": 7_414_886_400,
        "6n-attention": 7_817_539_584,
        "hf": 5_838_876_672,
    }


def test_a_rung_counts_tokens_over_its_counted_steps() -> None:
    from ladder import MODEL, measured

    from diagnose.hardware import resolve

    device = resolve({"name": "NVIDIA H100 80GB HBM3"}, peak_tflops=989)
    found = measured([0.7, 0.8, 0.9], {"micro_batch": 37, "seq_len": 1024}, MODEL, device)

    assert found["tokens_per_s"] == pytest.approx(37 * 1024 / 0.8)
    assert found["mfu"]["palm"] == pytest.approx(47_360 * 7_817_134_080 / 989e12)
    assert measured([1.0], {"micro_batch": 1, "seq_len": 8}, MODEL, resolve({}))["mfu"]["palm"] is None


def test_out_of_memory_is_an_outcome_and_other_errors_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import ladder_row

    def fails(error: BaseException) -> None:
        def train(spec: Any) -> Any:
            raise error

        monkeypatch.setattr(ladder_row, "_train", train)

    spec = {"liger": False, "memory_gib": None}
    fails(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.42 GiB"))
    assert ladder_row.row(spec)["outcome"] == "oom"
    fails(RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="illegal"):
        ladder_row.row(spec)


def test_the_report_puts_what_was_measured_beside_what_was_recorded() -> None:
    from ladder import rungs
    from ladder_report import markdown

    rung = rungs(BENCHMARKS / "ladder.csv")[1]
    row = {"rung": rung.name, "settings": rung.settings, "recorded": rung.recorded, "outcome": "ok"}
    row |= {"step_s": [0.5, 0.4, 0.6], "tokens_per_s": 14_336.0, "mfu": {"palm": 0.1133}, "reserved_bytes": 70e9}
    device = {"name": H100["name"], "matrix_peak_flops": 989.4e12, "matrix_peak_source": "table"}
    device |= {"hbm_bytes_per_s": 3352e9, "hbm_source": "captured"}
    ceilings = {"versions": {"torch": "2.13.0", "hip": None}, "bf16_gemm_flops": 742e12, "copy_bytes_per_s": 2900e9}
    page = markdown({"date": "d", "command": "c", "tiny": False, "device": device, "ceilings": ceilings, "rows": [row]})

    assert "bf16 product 742.0 TFLOP/s (75.0 % of the peak), device copy 2,900.0 GB/s" in page
    assert "| ok (recorded: oom) | 14,336 | - | - | 500.0 | 11.3 % | - | - | - | 70.00 |" in page
    assert "versions: torch 2.13.0\n" in page


def ladder(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(BENCHMARKS / "ladder.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_without_a_gpu_there_is_no_report(tmp_path: Path) -> None:
    needs("torch")

    done = ladder("--out", str(tmp_path))

    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (3, "", [])
    assert done.stderr == ("no report: torch sees no GPU; run on a machine with a GPU, or try the path with --tiny\n")


@pytest.mark.slow
def test_two_tiny_rungs_run_on_a_cpu_and_are_captured(tmp_path: Path) -> None:
    needs("transformers", "accelerate")

    done = ladder("--tiny", "--steps", "6", "--skip", "2", "--capture", "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    [page] = tmp_path.glob("*.md")
    found = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert done.stdout == f"{page}\n"
    assert [row["outcome"] for row in found["rows"]] == ["ok", "ok"]
    assert [len(row["step_s"]) for row in found["rows"]] == [4, 4]
    assert all(row["diagnosis"]["verdict"] for row in found["rows"])
    assert all(row["mfu"]["palm"] is None for row in found["rows"])
