"""The words of the views: figures, evidence and settings as every form of the report spells them."""

import re

import diagnoses
import pytest
from report.printed import printed

from diagnose.diagnosis import Patch
from diagnose.report.views.gains import speedup
from diagnose.report.views.words import (
    evidence_line,
    first_sentence,
    flags_line,
    mfu_line,
    patch_lines,
)


def test_a_bound_reads_at_most_and_a_range_reads_as_a_range() -> None:
    assert speedup((1.0, 1.656)) == "up to 1.7x"
    assert speedup((1.57, 1.8)) == "1.6-1.8x"
    assert speedup((1.551, 1.554)) == "1.55x"
    assert speedup((1.23, 12.4)) == "1.2-12x"
    assert speedup((1.004, 1.656)) == "up to 1.7x"
    assert speedup((1.23, None)) == "at least 1.2x"
    assert speedup((0.85, 1.3)) == "0.85-1.3x"
    assert speedup((0.87, 1.002)) == "0.87-1.00x"
    assert speedup((1.0, 1.002)) == "nothing alone"
    assert speedup(None) == ""


def test_guards_are_no_evidence_unless_there_is_nothing_else() -> None:
    guard, telling = diagnoses.DATA_WAIT.evidence[0], diagnoses.DATA_WAIT.evidence[1]

    assert evidence_line((guard, telling)) == "data_wait_share 39.7 % of the device step"
    assert evidence_line((guard,)) == "has_gpu yes"


@pytest.mark.long
def test_a_number_ends_no_sentence_and_keeps_its_unit() -> None:
    assert first_sentence("It takes 39.7 % of a.b.c. Then more.") == "It takes 39.7 % of a.b.c."
    for width in range(40, 120):
        assert not re.search(r"^\s+%", printed(diagnoses.data_bound(), width), re.MULTILINE)


def test_mfu_names_its_denominator_briefly_and_in_full() -> None:
    assert mfu_line(diagnoses.KNOWN_MFU) == "MFU of 312 TFLOP/s dense bf16, A100-SXM4-80GB"
    assert mfu_line(diagnoses.KNOWN_MFU, details=True) == (
        "MFU = FLOPs of matmuls and attention: 12.9 TFLOP per step / (peak 312.0 TFLOP/s x the step) "
        "(A100-SXM4-80GB: dense bf16 peak, confidence high)"
    )


@pytest.mark.parametrize(
    ("target", "settings", "typed"),
    [
        ("training_arguments", {"bf16": True}, ["TrainingArguments(..., bf16=True)", "--bf16 True"]),
        (
            "training_arguments",
            {"fsdp_config": {"a": 1}},
            ['TrainingArguments(..., fsdp_config={"a": 1})', "--fsdp_config '{\"a\": 1}'"],
        ),
        ("model_kwargs", {"attn_implementation": "sdpa"}, ['from_pretrained(..., attn_implementation="sdpa")']),
        ("environment", {"NCCL_ALGO": "Ring,Tree x", "A": True}, ["export NCCL_ALGO='Ring,Tree x'", "export A=1"]),
        ("ddp", {"bucket_cap_mb": 100}, ["DistributedDataParallel(..., bucket_cap_mb=100)"]),
        ("dataloader", {"num_workers": 8}, ["DataLoader(..., num_workers=8)"]),
        ("unheard_of", {"x": None}, ["unheard_of: x=None"]),
        ("ddp", {}, []),
    ],
)
def test_a_patch_reads_as_it_would_be_typed(target: str, settings: dict[str, object], typed: list[str]) -> None:
    patch = Patch(target=target, set=settings)

    assert [*patch_lines(patch), *filter(None, [flags_line(patch)])] == typed
