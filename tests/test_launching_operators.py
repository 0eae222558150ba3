"""Operators that launched kernels, by signature, and the members of sequences of them."""

from collections.abc import Iterator, Sequence

import numpy as np
from analysed import ADD, GEMM, measured
from kineto import Trace

from diagnose.metrics.kernel_groups.operators import NEAR, found_near, launched_by, launching, no_kernels

SMALL, LARGE = [[64, 64], [64, 64]], [[4096, 4096], [4096, 4096]]


def test_operators_of_one_name_and_sizes_have_one_signature() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", SMALL, GEMM, 10)
        job.op("aten::mm", LARGE, [(GEMM, 50), (ADD, 5)])
        job.op("aten::mm", SMALL, GEMM, 10)
        job.op("aten::add", None, ADD, 5)
        job.launch(ADD, 5)
    found = launching(m := measured(job))
    calls = {(each.name, each.dims): each.calls for each in found.signatures}
    names = [found.signatures[at].name if at >= 0 else "" for at in found.of_activity]

    assert calls == {
        ("aten::mm", ((64, 64), (64, 64))): 2,
        ("aten::mm", ((4096, 4096), (4096, 4096))): 1,
        ("aten::add", ()): 1,
    }
    assert names == ["aten::mm"] * 4 + ["aten::add", ""]
    assert launched_by(m, lambda operator: operator.dims[:1] == ((4096, 4096),)).tolist() == [0, 1, 1, 0, 0, 0]


def test_without_launches_there_is_no_signature() -> None:
    job = Trace()
    with job.step():
        job.launch(ADD, 5)
    m = measured(job)

    assert launching(m).signatures == ()
    assert launched_by(m, lambda operator: True).tolist() == no_kernels(m).tolist() == [False]


def test_a_surrounding_is_asked_for_once_and_ends_where_the_sequence_does() -> None:
    asked = []

    def members(names: Sequence[str], at: int) -> Iterator[int]:
        asked.append("".join(name or "." for name in names))
        yield at
        yield from (i for i in range(at - NEAR, at + NEAR + 1) if names[i] == "b")

    text = "abcdecba" + "xxxx" + "cc" + 3 * "aaaaacbaaaa" + "caa"
    names = sorted(set(text))
    found = found_near(np.array([names.index(each) for each in text]), names, "c".__contains__, members)

    anchors = [at for at, name in enumerate(text) if name == "c"]
    near = {i for at in anchors for i in range(len(text)) if abs(i - at) <= NEAR and text[i] == "b"}
    assert found.tolist() == sorted({*anchors, *near})
    assert sorted(asked) == sorted({f"....{text}...."[at : at + 2 * NEAR + 1] for at in anchors})
    assert len(asked) == len(anchors) - 2, "three are alike"
