"""The terminal report: whole of real diagnoses, its edges of hand-built ones."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import diagnoses
import msgspec
import pytest
from read_once import diagnosis_of
from report.printed import piped, printed
from rich.cells import cell_len
from rich.console import Console

from diagnose.diagnosis import Diagnosis
from diagnose.judge import verdict
from diagnose.report.text import render, render_brief
from diagnose.report.views.breakdown import basis, rows
from diagnose.report.views.brief import brief

WIDTHS = [60, 80, 100, 140, 200]
CASES = [diagnoses.diagnosis, diagnoses.data_bound, diagnoses.hostile, diagnoses.undecided]
ROOT = Path(__file__).parent.parent
GOLDENS = {  # of real diagnoses: a job on a GPU, one of eight ranks, and a plan of several changes
    "h200-llama-eager.json.gz": "h200-llama-eager.txt",
    "synthetic-straggler": "synthetic-straggler.txt",
    "synthetic-memory-bound.json.gz": "synthetic-memory-bound.txt",
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("details", [False, True])
def test_no_line_is_longer_than_the_console_and_none_has_trailing_blanks(
    case: Callable[[], Diagnosis], width: int, details: bool
) -> None:
    lines = printed(case(), width, details=details).splitlines()

    assert max(cell_len(line) for line in lines) <= width
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_part_is_there_at_every_width(width: int) -> None:
    report = printed(diagnoses.data_bound(), width)

    labels = [label for line in report.splitlines() if (label := line[:10].strip()) and line[0] != " "]

    screen = ["verdict", "why", "next", "gain", "step", "scope"]
    assert labels == [*screen, "causes", "ranks", "late rank", "plan", "also", "leave alon", "to learn m"]


def test_the_default_report_of_one_rank_fits_a_screen() -> None:
    one_rank = msgspec.structs.replace(diagnoses.data_bound(), ranks=(), stragglers=())

    assert printed(one_rank, 100).count("\n") <= 48
    assert printed(one_rank, 100, details=True).count("\n") > 48


@pytest.mark.parametrize("sample", GOLDENS)
def test_the_whole_report(sample: str, update_goldens: bool) -> None:
    golden = ROOT / "tests" / "goldens" / GOLDENS[sample]
    report = printed(diagnosis_of(ROOT / "sample_traces" / sample))
    if update_goldens:
        golden.write_text(report, encoding="utf-8")

    assert report == golden.read_text(encoding="utf-8")


def test_details_has_every_item_that_the_default_leaves_out() -> None:
    brief, full = printed(diagnoses.data_bound(), 200), printed(diagnoses.data_bound(), 200, details=True)

    for text in ("Fuse them.", "--dataloader_num_workers 8", "use_liger_kernel", "no shapes", "rank0.json.gz"):
        assert text not in brief
        assert text in full
    assert "more: --details" not in full


def test_quiet_is_the_first_lines() -> None:
    lines = piped(lambda console: render_brief(diagnoses.data_bound(), console), 120).splitlines()

    assert [line[:10].strip() for line in lines] == ["verdict", "why", "next", "gain"]
    assert lines[2].endswith("TrainingArguments(..., dataloader_num_workers=8, dataloader_pin_memory=True)")
    assert lines[3] == "gain      up to 1.7x"


def test_a_severe_finding_without_a_place_in_the_plan_is_not_lost() -> None:
    report = printed(diagnoses.data_bound(), 120)

    assert "also          make room in device memory" in report
    assert "unfused-norm" not in report
    assert "Lost: 1,234 events" in report


def test_what_makes_the_answer_unsafe_comes_next() -> None:
    lost = msgspec.structs.replace(diagnoses.DAMAGED, rule="lost-gpu-events", severity="critical")
    plan = diagnoses.data_bound()
    unsafe = diagnoses.judged(plan, findings=(lost, *plan.findings))

    report = printed(unsafe, 120)

    assert "next      Capture again and let the job write the trace to its end." in report
    assert "plan          2. set dataloader_num_workers=8, dataloader_pin_memory=True: up to 1.7x" in report


def test_the_denominator_is_named_once_above_the_shares() -> None:
    device, host = printed(diagnoses.data_bound()), printed(diagnoses.undecided())

    assert "causes        device step, 174.0 ms (mean of 8)" in device
    assert "causes        host step, 800.0 us" in host


def test_the_ledger_adds_up_with_small_causes_in_one_row() -> None:
    diagnosis = diagnoses.data_bound()
    listed = rows(diagnosis.waterfall)
    classes = [row for row in listed if row.class_]

    assert sum(row.ns for row in classes) == diagnosis.steps.device_time_ns
    assert [row.ns for row in classes] == sorted((row.ns for row in classes), reverse=True)
    memory = next(i for i, row in enumerate(listed) if row.name == "memory-bound work")
    names = [row.name.strip() for row in listed[memory + 1 : memory + 4]]
    assert names == ["normalisation", "elementwise", "2 smaller"]
    assert sum(row.ns for row in listed[memory + 1 : memory + 4]) == listed[memory].ns


def test_a_class_that_took_no_time_has_no_row() -> None:
    entries = diagnoses.ledger(100, 1, gemm=("compute", 99.96), copy_HtoD=("data", 0.04))
    parts = diagnoses.divided(entries, diagnoses.UNKNOWN_MFU)

    assert [row.name for row in rows(parts)] == ["compute-bound work: matrix products"]


def test_a_trace_without_gpu_is_accounted_on_host_steps() -> None:
    of = basis(diagnoses.undecided())

    assert (of.name, of.step_ns) == ("host step", 800_000)


def test_a_close_call_names_both_classes_and_what_makes_it_close() -> None:
    report = " ".join(printed(diagnoses.close_call(), details=True).split())

    close = f"within {100 * verdict.NEAR:.0f} points of the {100 * verdict.NAMES_THE_CLASS:.0f} % of the step"
    assert f"between compute-bound and data-bound: the waiting is {close}" in report


def test_unknown_mfu_says_why_and_which_option_supplies_it() -> None:
    report = printed(diagnoses.data_bound(), 200, details=True)

    assert "MFU is unknown: the GPU (NVIDIA PG506-230) is not in the table of peaks; pass --peak-tflops" in report
    assert "--flops-per-step" not in report


def test_no_finding_is_not_a_clean_bill_of_health_when_rules_could_not_judge() -> None:
    assert "nothing to change: no known fault was found; 1 question is open" in printed(diagnoses.undecided())


def test_rules_that_miss_the_same_measurement_share_an_entry() -> None:
    brief, full = printed(diagnoses.data_bound()), printed(diagnoses.data_bound(), details=True)

    assert "to learn more record with record_shapes=True, to see whether" in brief
    assert "unfused-attention, near-hardware-peak   no shapes" in full
    assert full.count("capture with record_shapes=True") == 1


def test_hostile_names_neither_style_nor_move_nor_break_lines() -> None:
    report = printed(diagnoses.hostile(), 200)

    assert "[red]x[/red]\\x1b[31m line two" in report
    report += printed(diagnoses.hostile(), 200, details=True)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", report)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert "####" in printed(diagnoses.data_bound(), encoding="ascii")


def test_colour_is_off_whenpiped_and_carries_no_meaning_when_on() -> None:
    plain = printed(diagnoses.data_bound())
    terminal = io.StringIO()
    render(
        diagnoses.data_bound(),
        Console(file=terminal, width=80, force_terminal=True, color_system="truecolor", no_color=False),
    )

    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()) == plain


def test_one_line_has_the_class_and_the_change_with_its_gain() -> None:
    assert brief(diagnoses.data_bound()) == (
        "data-bound; set dataloader_num_workers=8, dataloader_pin_memory=True (up to 1.7x)"
    )
