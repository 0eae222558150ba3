"""What passes the border, and what is told as left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diagnoses
import numpy as np
import pytest

from diagnose.commands.compare.baseline import kept, read, written
from diagnose.commands.compare.side import side_of
from diagnose.commands.data.measured import PassedOver, passed_over
from diagnose.commands.data.measured import decoded as measured_in
from diagnose.decoding import all_of, all_whole, has_endless_number, whole
from diagnose.diagnosis.reading import diagnosis_in
from diagnose.errors import UserError
from diagnose.roofline.calls import OperatorCall
from diagnose.roofline.flop_formulas import FORMULAS, causal_share, flops_of
from diagnose.roofline.traffic import bytes_of
from diagnose.series.segments import splits
from diagnose.trace.arguments import Arguments
from diagnose.trace.numbers import exact_ns, within
from diagnose.trace.record import decoded


@pytest.mark.parametrize(
    ("record", "path", "value", "lost"),
    [
        ({"cores": {"usable": 8.5, "quota": None}}, "cores.usable", 8.5, ()),
        ({"cores": {"usable": None}}, "cores.usable", None, ()),
        ({"cores": {"usable": "8"}}, "cores.usable", None, ("record-value cores.usable",)),
        ({"cores": [8]}, "cores.usable", None, ("record-value cores",)),
        (
            {"dataloader": {"prefetch_factor": 10**400}},
            "dataloader.prefetch_factor",
            None,
            ("record-value dataloader.prefetch_factor",),
        ),
        (
            {"batch": {"padding_share": float("nan")}},
            "batch.padding_share",
            None,
            ("record-value batch.padding_share",),
        ),
        (
            {"batch": {"shapes": {"input_ids": [8, "x"]}}},
            "batch.shapes.input_ids",
            None,
            ("record-value batch.shapes.input_ids",),
        ),
        (
            {"steps": {"waiting_ns": [1.0, "x", 2.0]}},
            "steps.waiting_ns",
            [1.0, None, 2.0],
            ("record-value steps.waiting_ns",),
        ),
        ({"compiled": "yes"}, "compiled", None, ("record-value compiled",)),
        ({"a key of another": {"depth": [1, {"b": 1e306}]}}, "compiled", None, ("record-value",)),
        ([], "compiled", None, ("unreadable-record",)),
    ],
    ids=str,
)
def test_a_record(record: Any, path: str, value: object, lost: tuple[str, ...]) -> None:
    found = decoded(record)

    assert found.get(path) == value
    assert found.lost == lost or (lost == ("record-value",) and len(found.lost) == 1)


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ([[2, 3], [], [[4], [5, 6]]], None),
        ([[2, -3], [4]], [[], [4]]),
        ([[2, 3.0], [True], "x", 4], [[], [], [], []]),
        ([[[1, [2]], [3]], [1 << 45]], [[], []]),
        ([[1 << 30, 1 << 30], [7]], [[], [7]]),
        (12, []),
        ({"a": 1}, []),
    ],
    ids=str,
)
def test_sizes_of_arguments(sizes: Any, found: Any) -> None:
    raw = json.dumps(sizes).encode()
    arguments = Arguments()
    ((dims, _, _),) = arguments.decoded([(raw, b"", b"")])

    assert json.loads(dims) == (sizes if found is None else found)
    assert arguments.damaged == (found is not None)


@pytest.mark.parametrize(
    "dims", [[], [[]], [[1]], [[1, 2], [3]], [[[1, 2]], [[3]]], [[0, 0, 0, 0]] * 3, [[1 << 44]] * 4], ids=str
)
@pytest.mark.parametrize("values", [[], ["True"] * 26, ["[0, 0]"] * 26, ["null"] * 26, ["[[1], 2]"] * 26], ids=str)
def test_every_formula_answers_or_does_not_know(dims: list[Any], values: list[str]) -> None:
    for name in FORMULAS:
        call = OperatorCall(name, dims, ("float",) * len(dims), tuple(values))
        flops, moved = flops_of(call, {}), bytes_of(call, {})
        assert flops is None or 0 <= flops <= 1e18
        assert moved is None or 0 < moved <= 1e16
        assert 0.5 <= causal_share(call) <= 1


@pytest.mark.parametrize("digits", [b"1e306", b"-1e306", b"9" * 400, b"1e999", b"nan", b'"1e300"'])
def test_times_beyond_all_clocks_are_none(digits: bytes) -> None:
    assert exact_ns(digits) == np.iinfo(np.int64).min


def test_values_outside_are_absent() -> None:
    assert within(np.array([-5, 0, 7, 8, 1 << 62]), 7).tolist() == [-1, 0, 7, -1, -1]


@pytest.mark.parametrize("lengths", [(20, 500), (30, 30), (500, 20), (100, 3000)])
def test_two_clean_levels_are_told_apart(lengths: tuple[int, int]) -> None:
    values = np.log(np.repeat([0.005, 0.010], lengths))

    assert [split.at for split in splits(values, 0.01, 0.04)] == [lengths[0]]


@pytest.mark.parametrize("before", range(12))
def test_a_number_of_a_hundred_digits_is_seen_wherever_it_stands(before: int) -> None:
    text = b"x" * before

    assert has_endless_number(text + b"7" * 100 + b"x")
    assert not has_endless_number(text + b"7" * 99 + b"x" + b"7" * 99)


def in_no_text(content: bytes) -> bytes:
    """The JSON with a byte that no UTF-8 has in the first text that is a value."""
    at = content.index(b'": "' if b'": "' in content else b'":"')
    begin = content.index(b'"', content.index(b":", at)) + 1
    return content[:begin] + b"\xff" + content[begin:]


DIAGNOSIS = diagnoses.diagnosis().to_json().encode()
BASELINE = written(kept(side_of(diagnoses.diagnosis(), "run"), "one"))


@pytest.mark.parametrize(
    ("used", "content"),
    [
        (lambda path: diagnosis_in(path.read_bytes(), path), DIAGNOSIS),
        (read, BASELINE),
        (lambda path: measured_in(path.read_bytes()), b'{"version": 1, "loop": "x"}'),
    ],
)
def test_a_text_that_is_no_utf_8_is_refused_as_other_damage_is(
    used: Callable[[Path], Any], content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "one.json").write_bytes(in_no_text(content))
    with pytest.raises(UserError, match="utf-8"):
        used(tmp_path / "one.json")


def test_where_no_text_is_utf_8_nothing_was_passed_over(tmp_path: Path) -> None:
    (tmp_path / "left.json").write_bytes(b'{"empty": "\xff"}')

    assert passed_over(tmp_path / "left.json") == PassedOver()


@pytest.mark.parametrize("value", [[], [0, 7], [8], [-1], [True], [1.0], ["1"], [None], None, "x", {}, [1] * 65_537])
def test_long_lists_of_whole_numbers_are_decoded_as_short_ones(value: Any) -> None:
    told: tuple[list[str], list[str]] = ([], [])
    one_by_one = all_of(whole(0, 7))(value, "ranks", told[0].append)
    assert all_whole(0, 7)(value, "ranks", told[1].append) == one_by_one
    assert told[0] == told[1]
