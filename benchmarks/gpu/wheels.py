"""Builds the wheel of a checkout, and says what wheels require."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

PACKED = ".whl"  # the folder of a checkout in which wheels travel to a machine without a network
COMPILED = 3  # modules of the product: the reader of traces, the replay's loop, the roofline's nests
LEFT_OUT = ("build", PACKED, ".venv*", "__pycache__")
ANY_PYTHON = "[bdist_wheel]\npy_limited_api=cp311\n"


def output(*words: str, cwd: Path) -> str:
    """What a command prints."""
    return subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True).stdout


def files_of(root: Path) -> list[Path]:
    """The files that git knows or would take."""
    listed = output("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=root).split("\0")
    return [root / name for name in listed if name and os.path.lexists(root / name)]


def commit(root: Path) -> str:
    """The commit of the checkout, and whether there are changes; nothing where git does not know."""
    try:
        dirty = output("git", "status", "--porcelain", cwd=root).strip()
        return output("git", "rev-parse", "--short=12", "HEAD", cwd=root).strip() + ("+changes" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def copied(root: Path, target: Path) -> Path:
    """The checkout without `build/`, which may be stale; all of it where git does not know its files."""
    if not (root / ".git").exists():
        return Path(shutil.copytree(root, target, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT)))
    for path in files_of(root):
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy, follow_symlinks=False)
    return target


def built(root: Path, folder: Path, python: str) -> Path:
    """The wheel of the checkout, for every Python from 3.11 on, with its compiled modules."""
    with tempfile.TemporaryDirectory() as scratch:
        copy, made = copied(root, Path(scratch) / "tree"), Path(scratch) / "made"
        settings = Path(scratch) / "more.cfg"
        settings.write_text(ANY_PYTHON)
        environment = {**os.environ, "DIST_EXTRA_CONFIG": str(settings)}
        words = [python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(copy)]
        for extra in ([], ["--no-build-isolation"]):  # the second needs no network
            done = subprocess.run([*words, *extra], env=environment, capture_output=True, text=True)
            if done.returncode == 0:
                break
        else:
            raise SystemExit(f"no wheel could be built of {root}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        wheel = next(made.glob("*.whl"))
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, folder / wheel.name))


def compiled(wheel: Path) -> list[str]:
    """The compiled modules in a wheel that load on every Python."""
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith(".abi3.so")]


def requirement(text: str) -> Any:
    """A requirement as pip reads it; pip brings the reader where no other has."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        from pip._vendor.packaging.requirements import Requirement
    return Requirement(text)


def requires(lines: list[str], **where: str) -> Iterator[str]:
    """The requirements among the lines of metadata that hold without extras, and where it is said."""
    for each in map(requirement, lines):
        if each.marker is None or each.marker.evaluate({**where, "extra": ""}):
            yield f"{each.name}{each.specifier}"


def metadata_of(wheel: Path) -> list[str]:
    """The lines of a wheel's metadata that state what it requires."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []


def canonical(text: str) -> str:
    """The name in a requirement as indexes spell it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~;\[ ]", text, maxsplit=1)[0]).lower()
