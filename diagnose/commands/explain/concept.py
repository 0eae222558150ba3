"""Texts of words and classes, and what a rule's own text is completed by: one file each in `concepts/`.

They are templates as rules have them: `{name}` is a fact, a number of the run, or a threshold, which its owner states.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

ANY_CLASS = "any"  # what to do is what the run calls for next
_FOLDER = Path(__file__).parent / "concepts"
_CAUSES = Path(__file__).parent / "causes.toml"


class Yours(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sentences with numbers of a run, for when all of these are known and the condition, if there is one, holds."""

    says: str
    if_: str = msgspec.field(default="", name="if")


class Concept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A word or a class; or what completes the text of the rule of that name, whose mechanism its own file holds.

    `names` are other spellings. `class_` is the class whose findings are what to do about it in a run.
    """

    kind: Literal["word", "class", "rule"] = "word"
    title: str = ""
    names: tuple[str, ...] = ()
    class_: str = msgspec.field(default="", name="class")
    mechanism: str = ""
    formula: str = ""
    yours: tuple[Yours, ...] = ()
    without_run: str = ""
    see_it: str = ""
    do: str = ""
    wrong_if: str = ""
    thresholds: tuple[str, ...] = ()
    source: str = ""
    related: tuple[str, ...] = ()


class CauseText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a cause takes time, and the rules about it beyond those that read its own share."""

    why: str
    rules: tuple[str, ...] = ()


@cache
def concepts() -> Mapping[str, Concept]:
    """The texts by name."""
    files = sorted(_FOLDER.glob("*.toml"))
    return {file.stem: msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Concept) for file in files}


@cache
def cause_texts() -> Mapping[str, CauseText]:
    """The texts of causes by their name; a name that begins with "-" is the end of several."""
    return msgspec.convert(tomllib.loads(_CAUSES.read_text(encoding="utf-8")), dict[str, CauseText])


def cause_text(cause: str) -> CauseText | None:
    """The text of a cause; None if a word or a rule of that name has it."""
    texts = cause_texts()
    ends = (text for end, text in texts.items() if end.startswith("-") and cause.endswith(end))
    return texts.get(cause) or next(ends, None)
