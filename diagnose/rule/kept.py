"""What rule files say, as an earlier process has parsed it: that takes longer than to judge a small trace by them.

Kept is what TOML and `RuleFile` make of a text, known by a hash of it: whoever changes a file changes its hash. Nothing
that is kept is code, and it is decoded as strictly as a file is. All else is checked in each process.
"""

import contextlib
import functools
import hashlib
import sys
from pathlib import Path

import msgspec

from diagnose.rule import rule_file
from diagnose.rule.rule_file import RuleFile, parsed
from diagnose.trace.cache_folder import CacheFolder


class KeptFiles:
    """Rule files by the hash of their text, kept in a note of `folder`."""

    def __init__(self, folder: CacheFolder) -> None:
        self._folder, self._before = folder, _files_in(folder.note(_name(), "rules"))
        self._asked: dict[str, RuleFile] = {}

    def parsed(self, text: str, path: Path) -> RuleFile:
        """What the text of the rule file at `path` says.

        Raises:
            RuleError: as `parsed` of `rule_file` does.
        """
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in self._asked:
            self._asked[key] = self._before.get(key) or parsed(text, path)
        return self._asked[key]

    def keep(self) -> None:
        """Writes what was asked for, where some of it is new and there is room."""
        if self._asked.keys() - self._before.keys():
            self._before = dict(self._asked)
            with contextlib.suppress(OSError):
                self._folder.put_note(_name(), "rules", msgspec.msgpack.encode(self._asked))


@functools.cache
def kept_files(folder: Path) -> KeptFiles:
    """Those in the folder of a cache."""
    return KeptFiles(CacheFolder(folder))


@functools.cache
def _name() -> str:
    """Of the note: another for other code that parses."""
    code = Path(rule_file.__file__).read_bytes()
    return hashlib.sha256(f"{sys.version} {msgspec.__version__} ".encode() + code).hexdigest()[:40]


def _files_in(note: bytes | None) -> dict[str, RuleFile]:
    if note is not None:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return msgspec.msgpack.decode(note, type=dict[str, RuleFile])
    return {}
