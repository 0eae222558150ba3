"""The terminal report: whole of real diagnoses, its edges of hand-built ones."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import diagnoses
import drawn
import msgspec
import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, HistoryChange, LedgerEntry, Patch
from diagnose.diagnosis.postmortem import Mismatch, Postmortem, Traffic
from diagnose.judge import verdict
from diagnose.report.text import render, render_brief
from diagnose.report.views.heat import heat_of
from diagnose.report.views.ledger import basis, rows
from diagnose.report.views.words import (
    evidence_line,
    first_sentence,
    flags_line,
    mfu_line,
    patch_lines,
    speedup,
)

WIDTHS = [60, 80, 100, 140, 200]
CASES = [diagnoses.diagnosis, diagnoses.data_bound, diagnoses.hostile, diagnoses.undecided]
ROOT = Path(__file__).parent.parent
GOLDENS = {  # of real diagnoses: a job of eight ranks, and a plan of several changes
    "synthetic-straggler": "synthetic-straggler.txt",
    "synthetic-memory-bound.json.gz": "synthetic-memory-bound.txt",
}


def printed(diagnosis: Diagnosis, width: int = 80, encoding: str = "utf-8", **how: bool) -> str:
    """The report as a pipe receives it."""
    return _piped(lambda console: render(diagnosis, console, **how), width, encoding)


def _piped(show: Callable[[Console], None], width: int, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding, errors="strict"), width=width)
    show(console)
    console.file.flush()
    return raw.getvalue().decode(encoding)


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

    labels = re.findall(r"^([a-z][a-z ]*:)", report, re.MULTILINE)

    of_job = ["straggler:", "ranks:"]
    changes = ["next:", "then:", "also:", "not:", "not judged:"]
    assert labels == ["verdict:", "steps:", "note:", *of_job, *changes, "lost:", "read:"]


def test_the_default_report_of_one_rank_fits_a_screen() -> None:
    one_rank = msgspec.structs.replace(diagnoses.data_bound(), ranks=(), stragglers=())

    assert printed(one_rank, 100).count("\n") <= 44
    assert printed(one_rank, 100, details=True).count("\n") > 44


@pytest.mark.parametrize("sample", GOLDENS)
def test_the_whole_report(sample: str, update_goldens: bool) -> None:
    golden = ROOT / "tests" / "goldens" / GOLDENS[sample]
    report = printed(analyze(ROOT / "sample_traces" / sample))
    if update_goldens:
        golden.write_text(report, encoding="utf-8")

    assert report == golden.read_text(encoding="utf-8")


def test_the_reasons_of_the_whole_plan_are_told_to_their_end() -> None:
    says = "The " + "long " * 40 + "reason has an end."
    finding = replace(diagnoses.DATA_WAIT, rule="late-rule", says=says, patch=None)
    of = diagnoses.data_bound()
    step = replace(of.plan[0], rule="late-rule", patch=None)
    report = printed(diagnoses.judged(of, findings=(*of.findings, finding), plan=(*of.plan, step)), 60)

    [then] = re.findall(r"^then:.*?(?=^\S|^\n)", report, re.MULTILINE | re.DOTALL)
    assert "reason has an end." in " ".join(then.split())
    assert "…" not in then


def test_a_bound_reads_at_most_and_a_range_reads_as_a_range() -> None:
    assert speedup((1.0, 1.656)) == "at most 1.66x"
    assert speedup((1.55, 1.8)) == "1.55-1.80x"
    assert speedup((1.551, 1.554)) == "1.55x"
    assert speedup(None) == ""


def test_details_has_every_item_that_the_default_only_counts() -> None:
    brief, full = printed(diagnoses.data_bound(), 200), printed(diagnoses.data_bound(), 200, details=True)

    for text in (
        "Fuse them.",
        "--dataloader_num_workers 8",
        "use_liger_kernel",
        "no shapes",
        "rank0.json.gz",
        "no memory events",
    ):
        assert text not in brief
    for text in ("Fuse them.", "--dataloader_num_workers 8", "use_liger_kernel", "no shapes", "rank0.json.gz"):
        assert text in full
    assert "+2 more: --details" in brief
    assert "more: --details" not in full


def test_quiet_is_two_lines() -> None:
    lines = _piped(lambda console: render_brief(diagnoses.data_bound(), console), 120).splitlines()

    assert [line.split(":")[0] for line in lines if not line.startswith(" ")] == ["verdict", "next"]
    assert "TrainingArguments(..., dataloader_num_workers=8" in lines[1]


def test_a_finding_without_a_place_in_the_plan_is_not_lost() -> None:
    report = printed(diagnoses.data_bound(), 120)

    assert "also:       near-out-of-memory   warning   The peak of 79.2 GiB is 99.0 % of device memory." in report
    assert "unfused-norm (info: --details)" in report
    assert "note:       damaged-trace   warning   1.2 % of the bytes that are there could not be read." in report


def test_what_makes_the_answer_unsafe_comes_next() -> None:
    lost = msgspec.structs.replace(diagnoses.DAMAGED, rule="lost-gpu-events", severity="critical")
    plan = diagnoses.data_bound()
    unsafe = diagnoses.judged(plan, findings=(lost, *plan.findings))

    report = printed(unsafe, 120)

    assert "next:       lost-gpu-events   critical" in report
    assert "then:       data-wait   at most 1.66x" in report


def test_the_straggler_line_says_why_and_what_it_costs_each_of_the_others() -> None:
    said = "rank 1 is late because of its data; each other rank waits 12.0 ms per step for it (6.9 % of the step)"

    assert said in printed(diagnoses.data_bound(), 140)


def test_guards_are_no_evidence_unless_there_is_nothing_else() -> None:
    guard, telling = diagnoses.DATA_WAIT.evidence[0], diagnoses.DATA_WAIT.evidence[1]

    assert evidence_line((guard, telling)) == "data_wait_share 39.7 % of the device step"
    assert evidence_line((guard,)) == "has_gpu yes"


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


def test_the_denominator_is_named_once_above_the_shares() -> None:
    device, host = printed(diagnoses.data_bound()), printed(diagnoses.undecided())

    assert "of the device step, 174.0 ms (mean of 8), each part takes:" in device
    assert "of the host step, 800.0 us, each part takes:" in host
    assert "800.0 us per host step" in host


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


def test_a_class_that_took_no_time_has_no_row_but_the_unexplained_time_has_one() -> None:
    entries = diagnoses.ledger(100, 1, gemm=("compute", 99.96), copy_HtoD=("data", 0.04))
    parts = diagnoses.divided(entries, diagnoses.UNKNOWN_MFU)

    assert [row.name for row in rows(parts)] == ["compute-bound work: matrix products", "unexplained"]
    assert "data: copies to the device" in [row.name for row in rows(parts, details=True)]


def test_a_trace_without_gpu_is_accounted_on_host_steps() -> None:
    of = basis(diagnoses.undecided())

    assert (of.name, of.step_ns) == ("host step", 800_000)


def test_a_close_call_names_both_classes_and_what_makes_it_close() -> None:
    report = " ".join(printed(diagnoses.close_call()).split())

    close = f"within {100 * verdict.NEAR:.0f} points of the {100 * verdict.NAMES_THE_CLASS:.0f} % of the step"
    assert f"between compute-bound and data-bound: the waiting is {close}" in report


def test_unknown_mfu_says_why_and_which_option_supplies_it() -> None:
    report = printed(diagnoses.data_bound(), 200)

    assert "MFU is unknown: the GPU (NVIDIA PG506-230) is not in the table of peaks; pass --peak-tflops" in report
    assert "--flops-per-step" not in report


def test_no_finding_is_not_a_clean_bill_of_health_when_rules_could_not_judge() -> None:
    assert "nothing to change: no rule fired; 1 rule could not judge it" in printed(diagnoses.undecided())


def test_rules_that_miss_the_same_measurement_share_an_entry() -> None:
    brief, full = printed(diagnoses.data_bound()), printed(diagnoses.data_bound(), details=True)

    assert "not judged: record_shapes=True -> unfused-attention, near-hardware-peak\n" in brief
    assert "profile_memory=True -> allocator-churn   +1 more: --details\n" in brief
    assert "unfused-attention, near-hardware-peak   no shapes" in full
    assert full.count("capture with record_shapes=True") == 1


def test_hostile_names_neither_style_nor_move_nor_break_lines() -> None:
    report = printed(diagnoses.hostile(), 200)

    assert "[red]x[/red]\\x1b[31m line two" in report
    report += printed(diagnoses.hostile(), 200, details=True)
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

    assert re.search(r"^  rank +1 +0$", report, re.MULTILINE)
    assert "+11 ranks that lose less: --details, --rank N" in many
    heads = re.findall(r"^  rank +([\d ]+)$", printed(diagnoses.hostile(), details=True), re.MULTILINE)
    assert sorted(int(number) for head in heads for number in head.split()) == list(range(20))


def test_each_column_of_the_heat_map_adds_up_to_the_rank_s_step() -> None:
    heat = heat_of(diagnoses.data_bound().ranks, most_rows=3)

    assert [row.name for row in heat.rows] == ["data wait", "matrix products", "convolutions", "8 others"]
    assert [round(sum(row.shares[column] for row in heat.rows), 6) for column in range(2)] == [1, 1]


def test_missing_ranks_and_mismatches_stand_above_the_ledger() -> None:
    found = Postmortem(
        mismatches=(Mismatch(kind="count", group="0", ranks=(1,), says="rank 1 has 3 all-reduces fewer in step 5"),),
    )
    whole = diagnoses.data_bound()
    report = printed(replace(whole, postmortem=found, trace=replace(whole.trace, missing_ranks=(2, 3, 4, 7))))

    assert "missing:    no trace of rank 2-4, 7 of 6; who is late may be among them" in report
    assert report.index("mismatch:   rank 1 has 3 all-reduces fewer in step 5") < report.index("of the device step, ")


def test_a_change_of_the_step_time_over_the_run_is_told_with_the_steps() -> None:
    change = HistoryChange(
        since_step=8123, until_step=9000, change_share=0.14, ranks=(24,), hosts=("node3",),
        says="since step 8,123: 14 % slower on node3",
    )  # fmt: skip

    assert "history:    since step 8,123: 14 % slower on node3" in printed(
        replace(diagnoses.data_bound(), history=(change,))
    )


def test_hosts_are_rolled_up_and_the_one_that_waits_least_comes_first() -> None:
    waits = (LedgerEntry(cause="late-rank-host", class_="host", ns=30 * diagnoses.MS, share=0.3),)
    works = (LedgerEntry(cause="gemm", class_="compute", ns=70 * diagnoses.MS, share=0.7),)
    late = (LedgerEntry(cause="dispatch", class_="host", ns=30 * diagnoses.MS, share=0.3),)
    same = diagnoses.data_bound().ranks[0]
    ranks = tuple(
        replace(same, rank=rank, host=f"node{rank // 2}", ledger=(late if rank == 3 else waits) + works)
        for rank in range(4)
    )
    report = printed(replace(diagnoses.data_bound(), ranks=ranks))

    assert re.findall(r"^  (node\d) +2 +0 +30 +0 +0 +70 +0 +(\d+)$", report, re.MULTILINE) == [
        ("node1", "15"),
        ("node0", "30"),
    ]


def test_a_late_rank_states_its_cost_and_with_details_what_it_spent_beyond_the_others() -> None:
    brief, full = (" ".join(printed(drawn.joined(), 200, details=details).split()) for details in (False, True))

    cost = "(6.9 % of the step); it costs the job 8.3 GPU-hours per day, 20.70 at the stated price; 15.0 ms more"
    beyond = "rank 1: data wait 15.0 ms, matrix products 1.0 ms beyond the other ranks per step; 94.7 % of its lateness"
    assert cost in brief
    assert beyond not in brief
    assert beyond in full
    assert "passing: rank 4 on node2 held up 2 steps because of garbage collection" in brief


def test_the_changes_of_the_whole_job_state_what_they_save_and_rest_on() -> None:
    job = drawn.joined()
    full = " ".join(printed(job, 200, details=True).split())
    assert job.postmortem is not None
    withheld = replace(job.postmortem, changes=(), no_changes_because="the replay is 30 % off")

    assert "whole job: 1.07-1.09x no rank is late; saves at least 9.7 GPU-hours per day by a replay of" in full
    assert "which unchanged is at most 1.2 % off the measured step of a rank" in full
    told = printed(replace(job, postmortem=withheld), 200)
    assert "whole job:  nothing is predicted: the replay is 30 % off" in told


def test_a_collective_states_its_bandwidth_and_what_is_expected_of_it() -> None:
    traffic = Traffic(
        kind="allreduce", group="0", ranks=8, bytes=26_214_400, count_per_step=12, transfer_ns=200_000,
        waiting_ns=50_000, exposed_share=0.031, busbw_gbs=131.07, expected_busbw_gbs=255.0,
    )  # fmt: skip
    report = printed(replace(diagnoses.data_bound(), postmortem=Postmortem(traffic=(traffic,))), 200)

    told = " ".join(report.split())
    assert "12 allreduce of 25.0 MiB per step over 8 ranks: transfer 200.0 us, waiting 50.0 us (median)" in told
    assert "busbw 131.1 GB/s of 255 GB/s expected at this size; exposed communication 3.1 % of the step" in told


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
