"""Headlines: the change and what it buys, then the fault, in the words of the job, in every report."""

from pathlib import Path
from typing import Any

import diagnoses
import pytest
from msgspec.structs import replace
from report.pages import Read, written
from report.printed import printed
from small_rules import known

from diagnose.analysis import analyze
from diagnose.diagnosis import Patch
from diagnose.facts import Fact, Facts, Scalar
from diagnose.patch.job_framework import in_short
from diagnose.report.markdown import markdown
from diagnose.report.views.summary import About
from diagnose.rule import load_rules

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "synthetic-memory-bound.json.gz"
RULES = {rule.id: rule for rule in load_rules((), known())}
ADAM = {"optimizer_faster_form": "fused", "optimizer_name": "Adam"}
SET = {"dataloader_num_workers": 8, "dataloader_pin_memory": True}


@pytest.mark.parametrize(
    ("target", "change", "headline"),
    [
        ("model_kwargs", {"attn_implementation": "sdpa"}, 'set attn_implementation="sdpa"'),
        ("model_kwargs", {"dtype": "bfloat16"}, "set dtype=torch.bfloat16"),
        ("training_arguments", SET, "set dataloader_num_workers=8, dataloader_pin_memory=True"),
        ("dataloader", {"num_workers": 8}, "set num_workers=8 of the DataLoader"),
        ("accelerator", {"mixed_precision": "bf16"}, 'set mixed_precision="bf16" of the Accelerator'),
        ("ds_config", {"bf16.enabled": True}, "set bf16.enabled=true in the DeepSpeed config"),
        ("environment", {"A_CONF": "a:True"}, "set A_CONF=a:True"),
        ("code", {"torch.compile": "model = torch.compile(model)"}, ""),
    ],
)
def test_a_setting_is_told_as_it_is_typed(target: str, change: dict[str, Any], headline: str) -> None:
    assert in_short(Patch(target=target, set=change)) == headline


@pytest.mark.parametrize(
    ("rule", "facts", "action"),
    [
        ("unfused-attention", {}, "use scaled_dot_product_attention instead of eager attention"),
        ("straggler", {}, "find what the late rank does differently"),
        ("straggler", {"straggler_cause": "gc"}, "collect garbage on all ranks at once"),
        ("unfused-optimizer", ADAM, "use the fused form of Adam"),
        ("contended-multiprocessors", {"gpu_vendor": "AMD"}, "let RCCL use fewer compute units"),
    ],
)
def test_advice_for_such_a_job_brings_its_own_words(rule: str, facts: dict[str, Scalar], action: str) -> None:
    given: Facts = {name: Fact(name, value, known()[name]) for name, value in facts.items()}

    assert RULES[rule].action_for(given) == action


def test_every_report_says_the_change_then_the_fault() -> None:
    diagnosis = analyze(SAMPLE)
    action, gain = "use scaled_dot_product_attention instead of eager attention", "about 2.1x (1.9-2.1x)"

    text = " ".join(printed(diagnosis, details=True).split())
    page, document = Read(written(diagnosis)), markdown(diagnosis, About("1.0"))

    assert diagnosis.next.action == diagnosis.findings[0].action == action
    assert f"{action}: {gain} unfused-attention critical" in text
    assert f"**1. {action}** ({gain}) · `unfused-attention` · critical" in document
    assert f"{action} unfused-attention" in page.shown
    assert f"{action} {gain} unfused-attention critical" in page.shown


def test_a_rule_without_an_action_is_told_by_its_name() -> None:
    of = diagnoses.data_bound()
    plain = diagnoses.judged(of, findings=tuple(replace(finding, action="") for finding in of.findings))

    assert "data-wait: up to 1.7x   critical" in printed(plain, details=True)
    assert "**1. `data-wait`** (up to 1.7x) · critical" in markdown(plain, About("1.0"))
