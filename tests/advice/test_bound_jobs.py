"""Real runs: code that is compiled again and again, and fp16 on a CPU that has no units for it.

Other processes may take the cores meanwhile, so each test asks only for what holds then, too.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding

pytestmark = [pytest.mark.capture, pytest.mark.slow]
JOBS = Path(__file__).parent / "jobs"
PATIENCE_S = 300
NO_FP16 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}  # no higher instructions, and so no products in fp16


def run(folder: Path, *command: str, **env: str) -> tuple[Diagnosis, Any]:
    """The diagnosis of the job, and its record."""
    out = folder / "bundle"
    asked = ["run", "--no-ledger", "--stop", "--out", str(out), "--", sys.executable, *command]
    subprocess.run(
        [sys.executable, "-m", "diagnose", *asked], cwd=folder, env={**os.environ, **env}, check=True,
        capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return analyze(out), json.loads((out / "capture-rank0.json").read_text())


def finding(found: Diagnosis, rule: str) -> Finding | None:
    return next((each for each in found.findings if each.rule == rule), None)


def test_recompilations_promise_what_they_took_and_noise_does_not_hide_them(tmp_path: Path) -> None:
    found, record = run(tmp_path, str(JOBS / "recompile.py"))
    recompiled, planned = finding(found, "recompilations"), [step.rule for step in found.plan]
    share = record["compilations"]["again_ns"] / record["compilations"]["since_first_ns"]

    assert 0 < share < 1
    assert recompiled is not None
    assert recompiled.predicted_speedup == pytest.approx((1.0, 1 / (1 - share)), rel=0.01)
    before = planned[planned.index("recompilations") + 1 :]
    assert {step.rule for step in found.plan if step.below_noise} <= set(before)
    assert "given up here after 8 versions" in recompiled.do


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN's instruction sets are those of x86")
@pytest.mark.parametrize("kind", ["fp16", "bf16", "fp32"])
def test_fp16_on_a_cpu_without_units_is_named_by_its_type(kind: str, tmp_path: Path) -> None:
    found, record = run(tmp_path, str(JOBS / "half_on_cpu.py"), kind, **NO_FP16)

    assert record["torch_settings"]["cpu_multiplies_fp16"] is False
    assert (finding(found, "fp16-without-units") is not None) == (kind == "fp16")
    assert found.next.rule == "fp16-without-units" or kind != "fp16"
