"""What rule files say is parsed once for all processes, and anew when a file changes."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_rules import known

from diagnose.rule import builtin_rules, load_rules
from diagnose.rule import loading as keeping
from diagnose.rule.condition import RuleError
from diagnose.rule.loading import CachedFiles
from diagnose.rule.rule_file import parsed
from diagnose.trace.cache_folder import CacheFolder

DATA_WAIT = builtin_rules() / "data-wait.toml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a cache that is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are parsed as TOML from here on."""
    seen, loads = list[str](), tomllib.loads

    def counted(text: str) -> dict[str, Any]:
        seen.append(text)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    return seen


def read(folder: Path, text: str) -> Any:
    """What another process makes of the text."""
    files = CachedFiles(CacheFolder(folder))
    found = files.parsed(text, DATA_WAIT)
    files.keep()
    return found


@pytest.mark.parametrize("path", sorted(builtin_rules().glob("*.toml")), ids=lambda path: path.stem)
def test_a_rule_file_is_kept_as_it_was_parsed(path: Path, folder: Path, texts: list[str]) -> None:
    text = path.read_text(encoding="utf-8")

    assert read(folder, text) == read(folder, text) == parsed(text, path)
    assert texts == [text, text]  # by the first, and by `parsed`


def test_a_changed_text_is_parsed_anew_and_what_nobody_asks_for_goes(folder: Path, texts: list[str]) -> None:
    text = DATA_WAIT.read_text(encoding="utf-8")
    changed = text.replace('maturity = "stable"', 'maturity = "sandbox"')
    before = read(folder, text)

    assert (before.maturity, read(folder, changed).maturity, read(folder, text).maturity) == (
        "stable",
        "sandbox",
        "stable",
    )
    assert texts == [text, changed, text]


def test_a_text_that_is_no_rule_is_refused_and_not_kept(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(RuleError, match="missing key"):
            read(folder, 'title = "Half"')
    assert not folder.exists()


SPOILT: dict[str, Callable[[Path], object]] = {
    "cut off": lambda note: os.truncate(note, 1000),
    "other bytes": lambda note: note.write_bytes(note.read_bytes()[:-3] + b"abc"),
    "another's": lambda note: note.chmod(0o666),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_note_is_none(spoil: Callable[[Path], object], folder: Path, texts: list[str]) -> None:
    text = DATA_WAIT.read_text(encoding="utf-8")
    first = read(folder, text)
    (note,) = folder.glob("*.rules")
    spoil(note)

    assert read(folder, text) == first
    assert texts == [text, text]


def test_a_note_of_another_shape_is_none(folder: Path, texts: list[str]) -> None:
    text = DATA_WAIT.read_text(encoding="utf-8")
    CacheFolder(folder).put_note(keeping._name(), "rules", b"\x81\xa3abc\x01")

    assert read(folder, text) == parsed(text, DATA_WAIT)


def test_where_nothing_can_be_written_rules_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    text = DATA_WAIT.read_text(encoding="utf-8")

    assert read(tmp_path / "cache", text) == parsed(text, DATA_WAIT)


def test_rules_are_the_same_from_the_cache(monkeypatch: pytest.MonkeyPatch, folder: Path, texts: list[str]) -> None:
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(folder))
    first = load_rules((), known(), cache=True)
    keeping.kept_files.cache_clear()
    texts.clear()

    assert load_rules((), known(), cache=True) == first == load_rules((), known())
    assert len(list(folder.glob("*.rules"))) == 1


def test_without_the_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(folder))
    load_rules((), known())

    assert not folder.exists()
