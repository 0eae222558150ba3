"""Makes a failing case small: fewer options and files, then fewer events and fields, then less text."""

import gzip
import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .case import Case
from .damage import ZSTD
from .values import toml

Fails = Callable[[Case], bool]
Holds = Callable[[Any], bool]
MOST_RUNS = 800
_SCALARS = (None, 0, "", [], {})


class _Spent(Exception):
    """The runs are used up; the smallest case so far is the answer."""


def minimised(case: Case, fails: Fails, most_runs: int = MOST_RUNS) -> Case:
    """The smallest case found in so many runs that `fails` as `case` does."""
    shrinking = _Shrinking(case, fails, most_runs)
    try:
        shrinking.options()
        shrinking.files()
        for name in sorted(shrinking.case.files, key=lambda name: -len(shrinking.case.files[name])):
            shrinking.content(shrinking.unpacked(name))
    except _Spent:
        pass
    return shrinking.case


class _Shrinking:
    """A case that gets smaller; `case` is the smallest so far."""

    def __init__(self, case: Case, fails: Fails, most_runs: int) -> None:
        self.case, self._fails, self._left = case, fails, most_runs

    def _try(self, case: Case) -> bool:
        if self._left <= 0:
            raise _Spent
        self._left -= 1
        if self._fails(case):
            self.case = case
            return True
        return False

    def _with(self, name: str, content: bytes) -> bool:
        return self._try(replace(self.case, files={**self.case.files, name: content}))

    def options(self) -> None:
        """Only the command and its path, where that is enough."""
        words = self.case.arguments
        if words[0] != "analyze":
            return
        for plain in ((*words[:2], "--json"), words[:2]):
            if plain == words or (len(plain) < len(words) and self._try(replace(self.case, arguments=plain))):
                return

    def files(self) -> None:
        """Only the files that it takes."""
        for name in sorted(self.case.files):
            self._try(replace(self.case, files={k: v for k, v in self.case.files.items() if k != name}))

    def unpacked(self, name: str) -> str:
        """The name of the file as plain text, where that fails too."""
        content, plain = self.case.files[name], name.removesuffix(".gz").removesuffix(".zst")
        if plain == name:
            return name
        try:
            text = gzip.decompress(content) if name.endswith(".gz") else ZSTD.decompress(content) if ZSTD else content
        except Exception:
            return name  # what cannot be unpacked is shrunk as it is
        files = {
            plain if other == name else other: text if other == name else self.case.files[other]
            for other in self.case.files
        }
        words = tuple(word.replace(name, plain) for word in self.case.arguments)
        return plain if self._try(replace(self.case, files=files, arguments=words)) else name

    def content(self, name: str) -> None:
        """The file's tree where it is one, else its text."""
        content = self.case.files.get(name)
        if not content:
            return
        for read, written in ((json.loads, _json), (_toml, _toml_bytes)):
            try:
                tree = read(content)
            except (ValueError, RecursionError):
                continue
            if self._with(name, written(tree)):
                shrink(tree, lambda smaller: self._with(name, written(smaller)))  # noqa: B023  used at once
                return
        lines = content.splitlines(keepends=True)
        kept = fewer(lines, lambda some: self._with(name, b"".join(some)))
        pieces = [b"".join(kept)[at : at + 1] for at in range(len(b"".join(kept)))]
        fewer(pieces, lambda some: self._with(name, b"".join(some)))


def shrink(tree: Any, holds: Holds) -> Any:
    """The tree with as few items, keys and distinct values as `holds` allows."""
    if isinstance(tree, list):
        kept = fewer(tree, lambda some: holds(list(some)))
        for index in range(len(kept)):
            kept[index] = shrink(kept[index], lambda item: holds([*kept[:index], item, *kept[index + 1 :]]))  # noqa: B023
        return kept
    if isinstance(tree, dict):
        keys = fewer(list(tree), lambda some: holds({key: tree[key] for key in some}))
        found = {key: tree[key] for key in keys}
        for key in keys:
            found[key] = shrink(found[key], lambda value: holds({**found, key: value}))  # noqa: B023
        return found
    if tree in _SCALARS or isinstance(tree, bool):
        return tree
    return next((plain for plain in _SCALARS[:3] if type(plain) is type(tree) and holds(plain)), tree)


def fewer(items: Sequence[Any], holds: Callable[[Sequence[Any]], bool]) -> list[Any]:
    """A smallest part of `items`, none of which can be left out (delta debugging)."""
    kept, step = list(items), max(len(items) // 2, 1)
    if kept and holds([]):
        return []
    while kept:
        begin, shrunk = 0, False
        while begin < len(kept):
            without = kept[:begin] + kept[begin + step :]
            if len(without) < len(kept) and holds(without):
                kept, shrunk = without, True
            else:
                begin += step
        if step == 1 and not shrunk:
            return kept
        step = max(step // 2, 1)
    return kept


def _json(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def _toml(content: bytes) -> dict[str, Any]:
    return tomllib.loads(content.decode())


def _toml_bytes(tree: Any) -> bytes:
    return toml(tree if isinstance(tree, dict) else {}).encode()
