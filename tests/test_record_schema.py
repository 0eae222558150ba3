"""The schema of a capture's record: what each kind of value may be written as, and that the page is up to date."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from diagnose.decoding import (
    all_of,
    digits,
    each,
    flag,
    in_order,
    listed,
    name,
    number,
    one_of,
    row,
    scalar,
    table,
    text,
    whole,
)
from diagnose.decoding.schema import schema_of

jsonschema = pytest.importorskip("jsonschema")

DOCS = Path(__file__).parents[1] / "docs"
FIELDS = table({"a": number(0, 5), "b": text}, optional=("b",))
KINDS = {
    "number": (number(0, 5), [0, 2.5, 5], [-1, 6, "2", True, None]),
    "whole": (whole(0, 5), [0, 5], [2.5, 6, -1, None]),
    "flag": (flag, [True, False], [0, "true", None]),
    "text": (text, ["", "a"], [1, None]),
    "name": (name, ["a"], [1, None]),
    "digits": (digits, ["0", "12"], ["", "x", "1" * 19, 12]),
    "scalar": (scalar, [True, 1.5, "a"], [None, [1]]),
    "listed": (listed(whole(), 2), [[], [1, 2]], [[1, 2, 3], [1.5], {}]),
    "in_order": (in_order(whole()), [[], [1, None]], [["a"], 1]),
    "all_of": (all_of(whole(), 1, 2), [[1], [1, 2]], [[], [1, 2, 3], [None]]),
    "row": (row(name, whole()), [["a", 1]], [["a"], [1, 1], ["a", 1, 2]]),
    "each": (each(whole()), [{}, {"x": 1}], [{"x": "a"}, []]),
    "table": (FIELDS, [{"a": 1}, {"a": None, "b": "x"}], [{"a": 9}, {"a": "x"}, 1]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_written_is_read_whole_and_nothing_else_is(kind: str) -> None:
    decoded, sound, odd = KINDS[kind]

    for value in sound:
        lost: list[str] = []
        jsonschema.validate(value, schema_of(decoded))
        assert decoded(value, "path", lost.append) == value
        assert not lost
    for value in odd:
        lost = []
        assert not jsonschema.Draft202012Validator(schema_of(decoded)).is_valid(value)
        assert value is None or decoded(value, "path", lost.append) is None or lost


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        (number(0, written_whole=True), 1.5, 1.5),  # by a loader of another kind, or by hand
        (one_of("host", "device"), "a clock of tomorrow", "a clock of tomorrow"),
        (FIELDS, {"a": 1, "c": [1]}, {"a": 1, "c": [1]}),
        (FIELDS, {"b": "x"}, {"b": "x"}),
    ],
)
def test_more_is_read_than_may_be_written(kind: Any, written: Any, read: Any) -> None:
    lost: list[str] = []

    assert not jsonschema.Draft202012Validator(schema_of(kind)).is_valid(written)
    assert kind(written, "path", lost.append) == read
    assert not lost


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_record_schema", DOCS / "record_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_schema_in_the_package_is_that_of_the_table(page: ModuleType) -> None:
    file = DOCS.parent / "diagnose" / "data" / "capture.schema.json"

    assert file.read_text(encoding="utf-8") == page.record_schema()
    jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text(encoding="utf-8")))


def test_words_of_a_field_that_is_gone_are_an_error(
    page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tmp_path / "words.toml"
    words.write_text('record = "All."\n[fields]\ncores = "CPU cores."\n"cores.gone" = "Were here."\n')
    monkeypatch.setattr(page, "WORDS", words)

    with pytest.raises(KeyError, match=r"cores\.gone"):
        page.record_schema()
