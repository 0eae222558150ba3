"""The terminal report of several ranks: who is late, what that costs, and what the whole job would gain."""

import re

import diagnoses
import drawn
from msgspec.structs import replace
from report.printed import printed

from diagnose.diagnosis import HistoryChange, LedgerEntry
from diagnose.diagnosis.postmortem import Mismatch, Postmortem, Traffic
from diagnose.report.views.heat import heat_of


def test_the_straggler_line_says_why_and_what_it_costs_each_of_the_others() -> None:
    said = "rank 1 is late because of its data; each other rank waits 12.0 ms per step for it (6.9 % of the step)"

    assert said in printed(diagnoses.data_bound(), 140)


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

    assert "missing       no trace of rank 2-4, 7 of 6; the late rank may be among them" in report
    mismatch = report.index("mismatch      rank 1 has 3 all-reduces fewer in step 5")
    assert mismatch < report.index("causes ")


def test_a_change_of_the_step_time_over_the_run_is_told_with_the_steps() -> None:
    change = HistoryChange(
        since_step=8123, until_step=9000, change_share=0.14, ranks=(24,), hosts=("node3",),
        says="since step 8,123: 14 % slower on node3",
    )  # fmt: skip

    assert "history       since step 8,123: 14 % slower on node3" in printed(
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
    report = printed(replace(diagnoses.data_bound(), ranks=ranks), details=True)

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
    assert "passing rank 4 on node2 held up 2 steps because of garbage collection" in brief


def test_the_changes_of_the_whole_job_state_what_they_save_and_rest_on() -> None:
    job = drawn.joined()
    full = " ".join(printed(job, 200, details=True).split())
    assert job.postmortem is not None
    withheld = replace(job.postmortem, changes=(), no_changes_because="the replay is 30 % off")

    assert "whole job 1.07-1.09x no rank is late; saves at least 9.7 GPU-hours per day by a replay of" in full
    assert "unchanged, it is at most 1.2 % off the measured step of a rank" in full
    told = printed(replace(job, postmortem=withheld), 200, details=True)
    assert "whole job     nothing is predicted: the replay is 30 % off" in told


def test_a_collective_states_its_bandwidth_and_what_is_expected_of_it() -> None:
    traffic = Traffic(
        kind="allreduce", group="0", ranks=8, bytes=26_214_400, count_per_step=12, transfer_ns=200_000,
        waiting_ns=50_000, exposed_share=0.031, busbw_gbs=131.07, expected_busbw_gbs=255.0,
    )  # fmt: skip
    report = printed(replace(diagnoses.data_bound(), postmortem=Postmortem(traffic=(traffic,))), 200, details=True)

    told = " ".join(report.split())
    assert "12 allreduce of 25.0 MiB per step over 8 ranks: transfer 200.0 us, waiting 50.0 us (median)" in told
    assert "busbw 131.1 GB/s of 255 GB/s expected at this size; exposed communication 3.1 % of the step" in told
