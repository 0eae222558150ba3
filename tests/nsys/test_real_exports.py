"""Real exports of Nsight Systems, which are not part of this project: the shares of the report against plain SQL.

DIAGNOSE_NSYS_EXPORTS names the folder that holds them.
"""

import sqlite3
from functools import cache

import pytest
from nsys_exports import REAL, real_export

from diagnose.analysis import Options, analyze
from diagnose.attribution.causes import LATE_RANK
from diagnose.diagnosis import Diagnosis
from diagnose.hardware.named import gpu_named
from diagnose.trace import load

POINT = 0.001  # a tenth of a point of the step

UNION = """
WITH activity AS (SELECT start AS a, "end" AS b FROM ({rows}) WHERE deviceId = {device}),
ordered AS (SELECT a, b, MAX(b) OVER (ORDER BY a, b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM activity)
SELECT SUM(MAX(0, b - MAX(a, COALESCE(before, a)))) FROM ordered
"""
KERNELS = 'SELECT start, "end", deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL'
COPIES = """SELECT start, "end", deviceId FROM CUPTI_ACTIVITY_KIND_MEMCPY
UNION ALL SELECT start, "end", deviceId FROM CUPTI_ACTIVITY_KIND_MEMSET"""


@cache
def answer(name: str) -> Diagnosis:
    return analyze(real_export(name))


def by_sql(name: str, device: int) -> dict[str, float]:
    """Shares of the time from the first activity of a device to its last, without anything of this project."""
    connection = sqlite3.connect(f"file:{real_export(name)}?mode=ro&immutable=1", uri=True)
    both = f"{KERNELS} UNION ALL {COPIES}"
    kernels, busy = (
        connection.execute(UNION.format(rows=rows, device=device)).fetchone()[0] for rows in (KERNELS, both)
    )
    span = connection.execute(f'SELECT MAX("end") - MIN(start) FROM ({both}) WHERE deviceId = {device}').fetchone()[0]
    connection.close()
    return {"kernels": kernels / span, "copies alone": (busy - kernels) / span, "idle": 1 - busy / span}


def by_report(name: str, rank: int) -> dict[str, float]:
    """The same of the ledger of one rank; waiting for a late rank is time in collective kernels."""
    ledger = next(each for each in answer(name).ranks if each.rank == rank).ledger
    copies = sum(entry.share for entry in ledger if entry.cause.startswith("copy-") or entry.cause == "memset")
    works = {"compute", "memory", "communication"}
    busy = sum(
        entry.share
        for entry in ledger
        if entry.class_ in works or entry.cause.startswith(("copy-", LATE_RANK)) or entry.cause == "memset"
    )
    return {"kernels": busy - copies, "copies alone": copies, "idle": 1 - busy}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("rank", [0, 1])
def test_kernels_copies_and_idle_time_are_those_of_sql(name: str, rank: int) -> None:
    assert by_report(name, rank) == pytest.approx(by_sql(name, device=rank), abs=POINT)


def test_copies_of_weights_to_the_device_are_what_the_first_export_waits_for() -> None:
    found = answer(REAL[0])

    assert (found.verdict.class_, [rank.rank for rank in found.ranks]) == ("data-bound", [0, 1])
    assert found.ledger[0].cause == "copy-HtoD"
    assert found.ledger[0].share == pytest.approx(0.950, abs=POINT)


def test_fused_attention_is_most_of_the_second_one() -> None:
    found = answer(REAL[1])

    assert (found.verdict.class_, found.ledger[0].cause) == ("compute-bound", "attention")
    assert found.steps.source == "window"  # the layers that repeat in it are no steps


def test_what_the_exports_cannot_tell_has_its_reason() -> None:
    found = answer(REAL[1])
    stated = analyze(real_export(REAL[1]), options=Options(gpu=gpu_named("H100")))

    assert "pass --gpu" in found.mfu.reason
    assert stated.mfu.reason.startswith("Nsight Systems records no shapes of operators")
    facts = {fact.name: fact for fact in answer(REAL[1]).facts}

    assert facts["captured_with"].value == "Nsight Systems"
    assert facts["gpu_events_lost_share"].value == 0  # what was launched at the end had not run
    assert [facts[name].because for name in ("misaligned_product_share", "gpu_name", "mean_collective_bytes")] == [
        "Nsight Systems records no shapes of operators",
        "the export does not describe the GPU (it has no table TARGET_INFO_GPU)",
        "Nsight Systems records neither sizes nor groups of collectives",
    ]


def test_operators_are_known_where_the_job_wrote_them_to_nvtx() -> None:
    trace = load(real_export(REAL[1]))
    operators = {trace.names[name] for name in trace.name[trace.rows_of("cpu_op")]}

    assert {"aten::mul", "c10d::alltoall_base_", "FlashAttnFunc"} <= operators
    assert not any("op_id" in name for name in operators)
