"""The table of causes: it has every cause that time can be attributed to, and nothing else spells causes in a table."""

import ast
from pathlib import Path
from typing import get_args

import pytest
from analysed import ADD, GEMM, attribution
from kineto import Trace

from diagnose.attribution.attribution import cause_of
from diagnose.attribution.causes import (
    CAUSES,
    COPIES,
    CORE_WAIT,
    EXPOSED,
    IDLE,
    LATENESS,
    MATRIX,
    OPERATORS,
    class_of,
    lateness_cause_of,
    low_intensity,
    waiting_for,
)
from diagnose.diagnosis.postmortem import LatenessCause
from diagnose.diagnosis.terms import CauseClass
from diagnose.judge.waterfall import MatrixTime
from diagnose.timeline.kernel_names import COMMUNICATION, Kind, bound_by, classify, table

ROOT = Path(__file__).parents[1]
AROUND_OPERATORS = (
    *("allocation", "host-allocation", "compile", "sync", "dispatch", "python"),
    *("autograd-engine", "untraced-operator", "untraced-step"),
)
CPU_OPTIMIZER = ("operator-optimizer", "optimizer-host")
SPELLED_ONCE = ("late-rank-", "-low-intensity", "-below-peak", "-below-achievable")


def test_every_kind_of_kernel_is_a_cause_in_the_class_of_its_kind() -> None:
    kinds = {Kind(row.family, row.sub) for row in table().operation if row.family != COMMUNICATION}
    kinds.add(classify("a kernel that no row knows"))

    assert {kind.family for kind in kinds} >= {"gemm", "attention", "norm", "optimizer", "other"}
    assert {kind: class_of(cause_of(kind)) for kind in kinds} == {kind: bound_by(kind) for kind in kinds}


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", {EXPOSED, *COPIES, *IDLE, "gemm", "elementwise"} - {CORE_WAIT}),
        (
            None,
            {EXPOSED, *OPERATORS, *CPU_OPTIMIZER, *AROUND_OPERATORS, "data-wait", "gc", "logging", "graph-capture"},
        ),
    ],
)
def test_every_cause_that_an_attribution_looks_for_is_in_the_table(gpu: str | None, expected: set[str]) -> None:
    job = Trace(gpu=gpu)
    with job.step():
        job.launch(GEMM, 100) if gpu else job.cpu_op("aten::mm", 100)
        job.host(50)
        job.launch(ADD, 100) if gpu else job.cpu_op("aten::add", 100)

    assert set(attribution(job).causes) == expected
    assert expected <= CAUSES.keys()


@pytest.mark.parametrize("work", [MatrixTime(model_ns=1), MatrixTime(model_ns=1, ceiling_ns=1)])
def test_every_part_of_a_waterfall_is_in_the_table(work: MatrixTime) -> None:
    rests = {work.rest_of(cause) for cause in (*MATRIX, *map(low_intensity, MATRIX))}

    assert len(rests) == 2 * len(MATRIX)
    assert rests | {name for name, _ in work.named} <= CAUSES.keys()


@pytest.mark.parametrize("class_", get_args(CauseClass))
def test_waiting_for_a_late_rank_counts_in_the_class_of_what_made_it_late(class_: CauseClass) -> None:
    assert class_of(waiting_for(class_)) == class_


def test_every_cause_has_a_label_and_every_lateness_a_reason() -> None:
    assert [
        cause.name for cause in CAUSES.values() if not cause.label or cause.label.startswith(cause.name + "-")
    ] == []
    assert LATENESS.keys() == set(get_args(LatenessCause))


@pytest.mark.parametrize(
    ("cause", "lateness"),
    [
        ("gc", "gc"),
        ("core-wait", "cores"),
        ("logging", "checkpoint"),
        ("data-wait", "data"),
        ("sync", "host"),
        ("untraced", "host"),
    ],
)
def test_what_a_rank_spends_more_on_says_why_it_is_late(cause: str, lateness: str) -> None:
    assert lateness_cause_of(cause) == lateness


@pytest.mark.long
def test_nothing_else_spells_causes_in_a_table() -> None:
    """Host causes and copies as three keys or elements of one literal, or a derived name put together by hand."""
    told_apart, found = {*IDLE, *COPIES} - {"compile", "sync", "python", "gc", "logging"}, []
    for path in sorted((ROOT / "diagnose").rglob("*.py")):
        if path == ROOT / "diagnose" / "attribution" / "causes.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            strings = {part.value for part in elements(node) if isinstance(part, ast.Constant)}
            spelled = (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(SPELLED_ONCE)
            )
            if spelled or len(strings & told_apart) >= 3:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert found == []


def elements(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.Dict):
        return [*node.keys]
    return [*node.elts] if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
