"""What a rule says to jobs that it was not written for: jobs that train nothing, and jobs on AMD's GPUs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, GEMM, facts, without
from kineto import Trace
from over_all import over_all

from diagnose.analysis import analyze
from diagnose.diagnosis import Patch
from diagnose.facts import Fact, Facts, Unknown
from diagnose.metrics import units
from diagnose.patch.job_framework import framework_of
from diagnose.patch.patches import python_lines
from diagnose.rule import SEVERITIES, Rule, load_rules
from diagnose.rule.needs import met

UNITS = units()
RULES = {rule.id: rule for rule in load_rules((), UNITS)}
OF_TRAINING = re.compile(
    r"GradScaler|[Ll]oss scal|the loss\b|larger batch|batch_size|-device batch|accumulat|[Oo]ptimizer|gradient"
    r"|in the Trainer|\b[Tt]rain(s|ing)?\b(?! mode)|\w+_steps\b"
)
OF_NVIDIA = re.compile(
    r"nvidia-smi|nvlink|dcgmi|FlashAttention-3|flash_attention_3|tf32|TF32|nccl-tests|compute-sanitizer"
    r"|NVL(?!ink, xGMI)"
)
CAUSES = ("host", "data", "gc", "checkpoint", "cores", "more_work", "slower_kernels", "link")


def told(rule: Rule, **known: object) -> list[str]:
    """What the rule says and advises in its own examples where it fires, with some facts known besides."""
    words = []
    for example in rule.examples:
        for cause in CAUSES:
            given = example.facts | {"straggler_cause": cause} | known
            facts = met(rule.needs, UNITS) | {
                name: Fact(name, value, UNITS[name]) for name, value in given.items() if value != "unknown"
            }
            if rule.judge(facts).answer in SEVERITIES:
                patch = rule.patch_for(facts)
                words += [rule.sentence(text, facts) for text in (rule.says, rule.unless)]
                words += [rule.advised(facts), rule.action_for(facts), *(patch.set if patch else ())]
                words += typed(patch, facts)
    return words


def typed(patch: Patch | None, facts: Facts) -> list[str]:
    """The lines that the report shows for the change."""
    made = patch and framework_of(facts).patch(patch)
    return python_lines(made) if made else []


@over_all("name", RULES)
def test_where_nothing_trains_nothing_is_said_about_training(name: str) -> None:
    assert [text for text in told(RULES[name], trains=False) if OF_TRAINING.search(text)] == []


@over_all("name", RULES)
def test_amd_gpus_get_no_advice_for_those_of_nvidia(name: str) -> None:
    remedy = RULES[name].remedy
    words = told(RULES[name], gpu_vendor="AMD", compute_capability="unknown")
    words += [remedy.assumes] if words and remedy else []

    assert [text for text in words if OF_NVIDIA.search(text)] == []


def test_the_same_rules_speak_of_training_and_of_nvidia_elsewhere() -> None:
    everywhere = [text for rule in RULES.values() for text in told(rule, trains=True, gpu_vendor="NVIDIA")]

    assert any(OF_TRAINING.search(text) for text in everywhere)
    assert any(OF_NVIDIA.search(text) for text in everywhere)


# -- whose GPU it is -----------------------------------------------------------------------------------------------


def built(device: str, kernel: str = ADD, calls: str = "cuda") -> dict[str, Any]:
    """Steps of one kernel on a device of that name, launched by calls that begin so."""
    job = Trace()
    for _ in range(4):
        with job.step():
            job.op("aten::add", kernel=kernel, gpu_us=100)
            job.malloc(900)
    text = re.sub('"cuda(?=[A-Z])', f'"{calls}', json.dumps(job.json())).replace("NVIDIA H100 80GB HBM3", device)
    return json.loads(text)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("trace", "vendor"),
    [
        (built("NVIDIA A100-SXM4-80GB"), "NVIDIA"),
        (built("AMD Instinct MI300X", calls="hip"), "AMD"),
        (built("", calls="hip"), "AMD"),
        (built("", calls="cuda"), "NVIDIA"),
        (without(built("", "Cijk_Ailk_Bljk_BBS_BH_MT64x64x32"), "cuda_runtime"), "AMD"),
        (without(built("", GEMM), "cuda_runtime"), "NVIDIA"),
        (without(built("", "own_kernel"), "cuda_runtime"), None),
    ],
)
def test_the_vendor_is_told_by_name_calls_or_kernels(trace: dict[str, Any], vendor: str | None) -> None:
    found = facts(trace)
    told = found["gpu_vendor"].value

    assert (None if isinstance(told, Unknown) else told) == vendor
    assert isinstance(found["compute_capability"].value, Unknown) == (vendor == "AMD")


@pytest.mark.parametrize(("calls", "patched"), [("cuda", True), ("hip", False)])
def test_segments_that_amds_builds_may_lack_are_not_set_there(calls: str, patched: bool, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(built("", calls=calls)), encoding="utf-8")
    diagnosis = analyze(tmp_path)
    finding = next(f for f in diagnosis.findings if f.rule == "allocator-churn")

    assert (finding.patch is not None) == patched
    assert ("ROCm" in finding.do) != patched
    assert ("PYTORCH_ALLOC_CONF" in {n.what for n in diagnosis.not_advised}) != patched


@pytest.mark.parametrize(
    ("device", "sms", "memory", "best", "worst"),
    [
        ("NVIDIA H100 80GB HBM3", 132, 85_017_755_648, 0.95 * 66.9 / 989.4, 0.16),
        ("NVIDIA L40S", 142, 47_697_362_944, 0.95 * 91.6 / 362, 2.36 * 91.6 / 362),
        ("AMD Instinct MI300X", 304, 206_141_652_992, 0.95 * 163.4 / 1307.4, 2.36 * 163.4 / 1307.4),
    ],
)
def test_half_precision_gains_what_the_peaks_of_the_gpu_allow(
    device: str, sms: int, memory: int, best: float, worst: float
) -> None:
    trace = built(device)
    trace["deviceProperties"][0] |= {"totalGlobalMem": memory, "numSms": sms}
    found, remedy = facts(trace), RULES["products-in-single-precision"].remedy

    assert remedy is not None
    for case, factor in (("best", best), ("worst", worst)):
        factors = remedy.factors(found, case)  # type: ignore[arg-type]
        assert factors is not None
        assert factors.kernels["fp32-products"] == pytest.approx(factor, abs=0.002)
