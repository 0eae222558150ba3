"""A cache of parsed rule files: parsing takes longer than judging a small trace.

It holds the result of TOML and `RuleFile` under a hash of the text, so a changed file changes its key. It holds no
code, and is decoded as strictly as a file. Everything else is checked in each process.
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
