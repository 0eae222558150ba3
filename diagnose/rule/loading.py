"""Rule files found, read, and held to their own examples.

A cache of parsed rule files: parsing takes longer than judging a small trace.

It holds the result of TOML and `RuleFile` under a hash of the text, so a changed file changes its key. It holds no
code, and is decoded as strictly as a file. Everything else is checked in each process.
"""

import contextlib
import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from diagnose.facts import Fact, Unknown
from diagnose.rule import rule_file
from diagnose.rule.builder import rule_of
from diagnose.rule.condition import RuleError, did_you_mean, in_place_of
from diagnose.rule.folder import builtin_rules
from diagnose.rule.needs import met
from diagnose.rule.rule import SEVERITIES, Rule
from diagnose.rule.rule_file import ExampleTable, RuleFile, parsed, text_of
from diagnose.trace.cache_folder import CacheFolder, default_folder


def load_rules(dirs: Iterable[Path], known: Mapping[str, str], *, cache: bool = False) -> tuple[Rule, ...]:
    """Load the builtin rules and those in `dirs`, by name; a file replaces one of the same stem in an earlier folder.

    The user's rules are checked against their examples. The builtin ones are checked by the tests, since that takes
    longer than reading them.

    Args:
        dirs: the user's folders of rule files.
        known: the unit of every fact.
        cache: whether parsed builtin rules are read from the user's cache and written to it.
    """
    files: dict[str, Path] = {}
    builtin = builtin_rules()
    for folder in (builtin, *dirs):
        found = sorted(folder.glob("*.toml")) if os.path.isdir(folder) else []
        paths = [path for path in found if path.is_file() or not path.exists()]  # no pipe and no socket
        if not paths:
            raise RuleError("no rule files (*.toml) in this folder", where=folder)
        files |= {path.stem: path for path in paths}
    kept = kept_files(default_folder()) if cache else None
    units = _units(tuple(known.items()))
    rules = tuple(
        _loaded(file, units, False, kept) if file.parent == builtin else _loaded(file, units, True, None)
        for _, file in sorted(files.items())
    )
    if kept is not None:
        kept.keep()
    return rules


def load_rule(path: Path, known: Mapping[str, str], *, tried: bool = True) -> Rule:
    """Read and check one rule file; `known` holds the unit of every fact, `tried` is whether to check the examples.

    The same text is checked once per process, because that takes longer than judging a small trace.
    """
    return _loaded(path, _units(tuple(known.items())), tried, None)


class _Units(dict[str, str]):
    """The unit of every fact, looked up by identity: hashing hundreds of names for each rule takes longer."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


@lru_cache(maxsize=16)
def _units(known: tuple[tuple[str, str], ...]) -> _Units:
    return _Units(known)


class CachedFiles:
    """Rule files by the hash of their text, kept in a note of `folder`."""

    def __init__(self, folder: CacheFolder) -> None:
        self._folder, self._before = folder, _files_in(folder.note(_name(), "rules"))
        self._asked: dict[str, RuleFile] = {}

    def parsed(self, text: str, path: Path) -> RuleFile:
        """Parse the text of the rule file at `path`, or return the cached result.

        Raises:
            RuleError: as `parsed` of `rule_file` does.
        """
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in self._asked:
            self._asked[key] = self._before.get(key) or parsed(text, path)
        return self._asked[key]

    def keep(self) -> None:
        """Write the parsed files to the cache, if some are new and there is room."""
        if self._asked.keys() - self._before.keys():
            self._before = dict(self._asked)
            with contextlib.suppress(OSError):
                self._folder.put_note(_name(), "rules", msgspec.msgpack.encode(self._asked))


@functools.cache
def kept_files(folder: Path) -> CachedFiles:
    """The parsed rule files in a cache folder."""
    return CachedFiles(CacheFolder(folder))


@functools.cache
def _name() -> str:
    """The name of the cache note; it changes with the code that parses."""
    code = Path(rule_file.__file__).read_bytes()
    return hashlib.sha256(f"{sys.version} {msgspec.__version__} ".encode() + code).hexdigest()[:40]


def _files_in(note: bytes | None) -> dict[str, RuleFile]:
    if note is not None:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return msgspec.msgpack.decode(note, type=dict[str, RuleFile])
    return {}


def _loaded(path: Path, known: _Units, tried: bool, kept: CachedFiles | None) -> Rule:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem):
        raise RuleError("a rule file is named after its fault, such as data-wait.toml", where=path)
    return _checked(path, text_of(path), known, tried, kept)


@lru_cache(maxsize=1024)
def _checked(path: Path, text: str, known: _Units, tried: bool, kept: CachedFiles | None) -> Rule:
    rule = rule_of(path, parsed(text, path) if kept is None else kept.parsed(text, path), known)
    if rule.mechanism is None and path.parent == builtin_rules():
        raise RuleError("a rule that ships says why its fault costs time", where=path, do="add the table [mechanism]")
    if tried:
        _try_examples(rule, path, known)
    return rule


def _try_examples(rule: Rule, path: Path, known: Mapping[str, str]) -> None:
    for number, example in enumerate(rule.examples):
        _try_example(rule, example, known, f"{path}: example[{number}]")
    expected = {example.expect for example in rule.examples}
    for what, answers in (("fires", set(SEVERITIES)), ("stays quiet", {"quiet"})):
        if not expected & answers:
            hint = f"add one whose expect is {' or '.join(sorted(answers))}"
            raise RuleError(f"no example in which the rule {what}", where=f"{path}: example", do=hint)


def _try_example(rule: Rule, example: ExampleTable, known: Mapping[str, str], where: str) -> None:
    given = {name: _example_fact(name, value, known, f"{where}.facts.{name}") for name, value in example.facts.items()}
    facts = met(rule.needs, known) | given
    judgement = rule.judge(facts)
    if judgement.answer != example.expect:
        raise RuleError(
            f"the example '{example.name}' expects {example.expect} and gets {judgement.answer}",
            where=f"{where}.expect",
            why=judgement.because or ", ".join(f"{name} = {facts[name].value}" for name in judgement.evidence),
        )


def _example_fact(name: str, value: object, known: Mapping[str, str], where: str) -> Fact:
    if name not in known:
        raise RuleError(f"no fact is named '{name}'", where=where, do=did_you_mean(name, known))
    if value == "unknown":
        return Fact(name, Unknown("the example says so", None), known[name])
    kind = known[name] if known[name] in ("flag", "text") else "number"
    given = "flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    if do := in_place_of(name, value):
        raise RuleError(f"{name} is never {value!r}", where=where, do=do)
    if given != kind or not isinstance(value, bool | str | int | float):
        raise RuleError(f"{name} is a {kind}, not {value!r}", where=where)
    return Fact(name, value, known[name])
