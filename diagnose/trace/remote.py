"""Traces that are not local files: s3://, gs://, hf://, ssh://, http:// and whatever else fsspec reaches, and pipes.

Reports of Nsight Systems, which only nsys can export, are like them. They are copied to a temporary folder, record
files included, and analysed there. Reading them in place would fetch them several times, because finding the ranks
means opening every file first.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from diagnose.errors import UserError, printable, to_install
from diagnose.trace.discover import SUFFIXES
from diagnose.trace.nsight.reports import exported_to, is_report, reports_in
from diagnose.trace.scratch import scratch_folder
from diagnose.trace.streams import copy_stream, is_stream, shown

_URL = re.compile(r"[A-Za-z][\w+.-]*://")
_LOCAL = re.compile(r"(?:file|local)://", re.IGNORECASE)
_SECRET = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
_DRIVERS = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "ssh": "paramiko",
    "sftp": "paramiko", "http": "aiohttp", "https": "aiohttp",
}  # fmt: skip
_PIECE_BYTES = 4 << 20
_LEFT_FREE_BYTES = 1 << 30
_DEEPEST, _MOST_FILES = 4, 10_000
_MOST_LISTED = 1_000_000


@dataclass(frozen=True)
class LocalTraces:
    """The place of a trace on this machine, and the names to show for its files."""

    path: Path
    names: Mapping[str, str] = field(default_factory=dict)

    def shown(self, path: object) -> str:
        """The name the user knows a file by."""
        return self.names.get(str(path), str(path))


def is_remote(path: str) -> bool:
    """Whether `path` is a URL of another machine."""
    return bool(_URL.match(path)) and not _LOCAL.match(path)


def displayed(url: str) -> str:
    """The URL without its password, and without the query of a signed link."""
    hidden = _SECRET.sub(r"\1@", url)
    return hidden.split("?")[0] if _scheme(url) in ("http", "https") else hidden


@contextlib.contextmanager
def on_this_machine(path: str | Path) -> Iterator[LocalTraces]:
    """The file or folder at `path`, copied here for as long as the block runs if it is on another machine or a stream.

    Raises:
        UserError: it cannot be reached or there is no room for it; and those of the block, with its files' own names.
    """
    text = str(path)
    if not isinstance(path, str) or not is_remote(text):
        path = Path(unquote(_LOCAL.sub("", text)) if _LOCAL.match(text) else path)
        if not is_stream(path) and not reports_at(path):
            yield LocalTraces(path)
            return
    with scratch_folder() as folder:
        place = _here(path, folder) if isinstance(path, Path) else _copied(text, folder)
        try:
            yield place
        except UserError as error:
            where = None if error.where is None else place.shown(error.where)
            raise UserError(error.what, where=where, why=error.why, do=error.do) from error


def files_below(url: str) -> list[str]:
    """The files below a folder on another machine, each by its parts from there, joined by slashes.

    Raises:
        UserError: it cannot be reached, or there is nothing.
    """
    fs, root = _filesystem(url)
    with _explained(url):
        found = fs.find(root)[:_MOST_LISTED]
    parts = [_safe_parts(remote.removeprefix(root)) for remote in found if remote.startswith(root)]
    if not any(parts):
        raise UserError("no such folder, or no file in it", where=displayed(url), do="check the address")
    return ["/".join(each) for each in parts if each]


def start_of(url: str, count: int) -> bytes:
    """The first bytes of a file on another machine.

    Raises:
        UserError: it cannot be reached.
    """
    fs, remote = _filesystem(url)
    with _explained(url), fs.open(remote, "rb") as file:
        return bytes(file.read(count))


def reports_at(path: Path) -> list[Path]:
    """The reports of Nsight Systems at the path, if it holds nothing that can be read directly."""
    return [path] if is_report(path) else reports_in(path, SUFFIXES) if path.is_dir() else []


def _here(path: Path, folder: Path) -> LocalTraces:
    """The content of a stream, or nsys's exports, as files in the folder."""
    reports = reports_at(path)
    if not reports:
        return _streamed(path, folder)
    names = exported_to(folder, reports)
    return LocalTraces(Path(next(iter(names))) if is_report(path) else folder, {str(folder): str(path), **names})


def _streamed(path: Path, folder: Path) -> LocalTraces:
    target = folder / "trace.json"
    copy_stream(path, target)
    return LocalTraces(target, {str(target): shown(path)})


def _copied(url: str, folder: Path) -> LocalTraces:
    fs, root = _filesystem(url)
    address = displayed(url)
    with _explained(url):
        if not _is_folder(fs, url, root):
            target = folder / (_safe_parts(urlsplit(url).path) or ["trace.json"])[-1]
            _copy(fs, root, target)
            return LocalTraces(target, {str(target): address})
        files = _wanted(fs, root)
        names = {str(folder): address}
        for remote, parts in files.items():
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(fs, remote, target)
            names[str(target)] = "/".join([address.rstrip("/"), *parts])
    return LocalTraces(folder, names)


def _wanted(fs: Any, root: str) -> dict[str, list[str]]:
    """The files that may be traces or records, those of the folder itself or else those below it, with their names."""
    traces: dict[str, list[str]] = {}
    for remote in fs.find(root, maxdepth=_DEEPEST)[:_MOST_FILES]:
        parts = _safe_parts(remote.removeprefix(root)) if remote.startswith(root) else []
        if parts and parts[-1].endswith(SUFFIXES):
            traces[remote] = parts
    direct = {remote: parts for remote, parts in traces.items() if len(parts) == 1}
    return direct if any(not parts[0].startswith("capture") for parts in direct.values()) else traces


def _safe_parts(path: str) -> list[str]:
    """The parts of a path from a server, none if one of them could lead out of a folder."""
    parts = [part for part in PurePosixPath(unquote(path)).parts if part != "/"]
    return [] if any(part in ("..", ".") or "\\" in part or "\0" in part for part in parts) else parts


def _copy(fs: Any, remote: str, target: Path) -> None:
    with fs.open(remote, "rb") as file, target.open("wb") as out:
        while piece := file.read(_PIECE_BYTES):
            if shutil.disk_usage(target.parent).free < _LEFT_FREE_BYTES + len(piece):
                raise UserError(
                    "no room to copy the traces", where=target.parent, do="free some space, or set TMPDIR elsewhere"
                )
            out.write(piece)


def _is_folder(fs: Any, url: str, root: str) -> bool:
    """A web server cannot be asked: there a folder ends with a slash."""
    return urlsplit(url).path.endswith("/") if _scheme(url) in ("http", "https") else bool(fs.isdir(root))


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise _uninstalled(url, "fsspec") from error
    with _explained(url):
        try:
            fs, root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise _uninstalled(url, _DRIVERS.get(_scheme(url), "")) from error
        except ValueError as error:
            why = str(error)
            raise UserError("cannot read from there", where=displayed(url), why=why, do="copy it here") from error
    return fs, root


def _uninstalled(url: str, package: str) -> UserError:
    return UserError(
        "cannot read from there",
        where=displayed(url),
        why=f"{package or 'the driver'} is not installed",
        do=to_install("remote") + (f", or only pip install {package}" if package else ""),
    )


@contextlib.contextmanager
def _explained(url: str) -> Iterator[None]:
    """Drivers raise errors of every kind: whatever keeps them from reading is the user's to know."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        cause = error.__cause__ or error  # fsspec calls a server that does not answer a missing file
        if isinstance(error, FileNotFoundError) and (cause is error or getattr(cause, "status", None) == 404):
            raise UserError("no such file or folder", where=displayed(url), do="check the address") from error
        message = _SECRET.sub(r"\1@", " ".join(str(cause).split())).split("?")[0][:300]
        raise UserError(
            "cannot read from there",
            where=displayed(url),
            why=f"{type(cause).__name__}: {printable(message)}" if message else type(cause).__name__,
            do="check the address, the network and your credentials",
        ) from error


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()
