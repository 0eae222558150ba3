"""The terminal report, on hand-built diagnoses."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import diagnoses
import pytest
from rich.cells import cell_len
from rich.console import Console

from diagnose.diagnosis import Diagnosis, Patch
from diagnose.report.ledger import basis, rows
from diagnose.report.text import render
from diagnose.report.words import patch_lines, speedup

WIDTHS = [60, 80, 120, 200]
CASES = [diagnoses.diagnosis, diagnoses.data_bound, diagnoses.hostile, diagnoses.undecided]
GOLDEN = Path(__file__).parent / "goldens" / "data_bound.txt"


def printed(diagnosis: Diagnosis, width: int = 80, encoding: str = "utf-8") -> str:
    """The report as a pipe receives it."""
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding, errors="strict"), width=width)
    render(diagnosis, console)
    console.file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_no_line_is_longer_than_the_console_and_none_has_trailing_blanks(
    case: Callable[[], Diagnosis], width: int
) -> None:
    lines = printed(case(), width).splitlines()

    assert max(cell_len(line) for line in lines) <= width
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_part_is_there_at_every_width(width: int) -> None:
    report = printed(diagnoses.data_bound(), width)

    labels = re.findall(r"^([a-z][a-z ]*:)", report, re.MULTILINE)

    expected = ["verdict:", "steps:", "lost:", "next:", "then:", "also:", "not:", "not judged:", "ranks:", "straggler:"]
    assert labels == [*expected, "read:"]


def test_the_whole_report(update_goldens: bool) -> None:
    report = printed(diagnoses.data_bound())
    if update_goldens:
        GOLDEN.write_text(report, encoding="utf-8")

    assert report == GOLDEN.read_text(encoding="utf-8")


def test_a_bound_reads_at_most_and_a_range_reads_as_a_range() -> None:
    assert speedup((1.0, 1.656)) == "at most 1.66x"
    assert speedup((1.55, 1.8)) == "1.55-1.80x"
    assert speedup((1.551, 1.554)) == "1.55x"
    assert speedup(None) == ""


def test_the_denominator_is_named_once_above_the_shares() -> None:
    device, host = printed(diagnoses.data_bound()), printed(diagnoses.undecided())

    assert "of the device step, 174.0 ms (mean of 8), each part takes:" in device
    assert "of the host step, 800.0 us, each part takes:" in host


def test_the_ledger_adds_up_with_small_causes_in_one_row() -> None:
    diagnosis = diagnoses.data_bound()
    listed = rows(diagnosis.ledger)

    classes = [row for row in listed if row.style]

    assert sum(row.ns for row in classes) == diagnosis.steps.device_time_ns
    assert [row.ns for row in classes] == sorted((row.ns for row in classes), reverse=True)
    memory = next(i for i, row in enumerate(listed) if row.name == "memory-bound work")
    assert [row.name.strip() for row in listed[memory + 1 : memory + 4]] == ["norm", "elementwise", "2 smaller"]
    assert sum(row.ns for row in listed[memory + 1 : memory + 4]) == listed[memory].ns


def test_a_trace_without_gpu_is_accounted_on_host_steps() -> None:
    of = basis(diagnoses.undecided())

    assert (of.name, of.step_ns) == ("host step", 800_000)


def test_unknown_mfu_says_why_and_which_option_supplies_it() -> None:
    report = printed(diagnoses.data_bound(), 200)

    assert "MFU is unknown: the device is not in the table of peaks; pass --peak-tflops" in report
    assert "--flops-per-step" not in report


def test_no_finding_is_not_a_clean_bill_of_health_when_rules_could_not_judge() -> None:
    assert "nothing to change: no rule fired; 1 rule could not judge it" in printed(diagnoses.undecided())


def test_rules_that_miss_the_same_measurement_share_an_entry() -> None:
    report = printed(diagnoses.data_bound())

    assert "fp32-without-tensor-cores, near-hardware-peak   no shapes" in report
    assert report.count("capture: record_shapes=True") == 1


def test_hostile_names_neither_style_nor_move_nor_break_lines() -> None:
    report = printed(diagnoses.hostile(), 200)

    assert "[red]x[/red]\\x1b[31m line two" in report
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", report)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert "####" in printed(diagnoses.data_bound(), encoding="ascii")


def test_colour_is_off_when_piped_and_carries_no_meaning_when_on() -> None:
    plain = printed(diagnoses.data_bound())
    terminal = io.StringIO()
    render(
        diagnoses.data_bound(),
        Console(file=terminal, width=80, force_terminal=True, color_system="truecolor", no_color=False),
    )

    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()) == plain


def test_many_ranks_are_cut_and_the_stragglers_come_first() -> None:
    both = diagnoses.data_bound()
    report = printed(both)
    many = printed(diagnoses.hostile())

    assert report.index("\n     1 data-bound") < report.index("\n     0 data-bound")
    assert "and 4 more: all are in --json" in many


@pytest.mark.parametrize(
    ("target", "settings", "typed"),
    [
        ("training_arguments", {"bf16": True}, ["TrainingArguments(..., bf16=True)", "--bf16 True"]),
        ("training_arguments", {"fsdp_config": {"a": 1}}, None),
        ("model_kwargs", {"attn_implementation": "sdpa"}, ['from_pretrained(..., attn_implementation="sdpa")']),
        ("environment", {"NCCL_ALGO": "Ring,Tree x", "A": True}, ["export NCCL_ALGO='Ring,Tree x'", "export A=1"]),
        ("ddp", {"bucket_cap_mb": 100}, ["DistributedDataParallel(..., bucket_cap_mb=100)"]),
        ("dataloader", {"num_workers": 8}, ["DataLoader(..., num_workers=8)"]),
        ("unheard_of", {"x": None}, ["unheard_of: x=None"]),
        ("ddp", {}, []),
    ],
)
def test_a_patch_reads_as_it_would_be_typed(target: str, settings: dict[str, object], typed: list[str] | None) -> None:
    lines = patch_lines(Patch(target=target, set=settings))

    if typed is None:
        typed = ['TrainingArguments(..., fsdp_config={"a": 1})', "--fsdp_config '{\"a\": 1}'"]
    assert lines == typed


def test_the_documented_report_is_the_golden_one() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reading-the-report.md").read_text(encoding="utf-8")

    assert GOLDEN.read_text(encoding="utf-8") in page
