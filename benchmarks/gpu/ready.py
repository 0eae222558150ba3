"""Makes the folder from which a call imports: the product, compiled, and what this interpreter lacks.

ready.py REPO SITE: the wheels in REPO/.whl where `pack.py` left some, else the wheel of this checkout, built here.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from wheels import PACKED, built, canonical, requires

SOURCES = ("diagnose", "probes", "rules", "setup.py", "pyproject.toml")
NEEDED = ("torch", "transformers", "accelerate")
ON_GPU = ("liger-kernel",)  # its kernels need a GPU


def main() -> int:
    """Makes the folder unless it is made of the same."""
    repo, site = Path(sys.argv[1]), Path(sys.argv[2])
    packed = sorted((repo / PACKED).glob("*.whl"))
    made_of, mark = of(packed) if packed else of(sources(repo)), site / ".ready"
    if mark.is_file() and mark.read_text() == made_of:
        return 0
    missing = [name for name in NEEDED if not has(name, site)] if packed else without_torch(site)
    if missing:
        print(f"ready: {sys.executable} lacks {', '.join(missing)}: install it there first", file=sys.stderr)
        return 1
    for wheel in packed or [built(repo, site / ".wheel", sys.executable)]:
        install(wheel, site)
    if not packed:
        for name in (*NEEDED, *(ON_GPU if os.environ.get("TINY") != "1" else ()), "diagnose-training"):
            complete(name, site)
    mark.write_text(made_of)
    return 0


def sources(repo: Path) -> list[Path]:
    """The files of which the product is built."""
    roots = [repo / name for name in SOURCES]
    return sorted(
        path for root in roots for path in (root, *root.rglob("*")) if path.is_file() and path.suffix != ".pyc"
    )


def of(paths: list[Path]) -> str:
    """What tells one state of files from another."""
    states = [f"{path}:{path.stat().st_mtime_ns}:{path.stat().st_size}" for path in paths]
    return hashlib.sha256("\n".join([sys.executable, os.environ.get("TINY", "0"), *states]).encode()).hexdigest()


def without_torch(site: Path) -> list[str]:
    """torch is of several GB and of a kind for each machine: the user chooses it."""
    return [] if has("torch", site) else ["torch"]


def has(name: str, site: Path) -> bool:
    """Whether the interpreter or the folder holds a distribution."""
    return distribution(name, site) is not None


def distribution(name: str, site: Path) -> importlib.metadata.Distribution | None:
    """The distribution in the folder or of the interpreter."""
    found = importlib.metadata.distributions(name=name, path=[str(site), *sys.path])
    return next(iter(found), None)


def complete(asked: str, site: Path) -> None:
    """A distribution and what it requires, each that is there left as it is."""
    name = canonical(asked)
    if not has(name, site):
        install(asked, site)
        found = distribution(name, site)
        for each in requires(list(found.requires or ()) if found else []):
            complete(each, site)
    elif name == "diagnose-training":
        found = distribution(name, site)
        for each in requires(list(found.requires or ()) if found else []):
            complete(each, site)


def install(what: Path | str, site: Path) -> None:
    """A wheel, or a distribution of the index, without what it requires; unpacked where pip fails."""
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-compile",
        "--upgrade",
        "--target",
        str(site),
    ]
    offline = ["--no-index"] if isinstance(what, Path) else []
    done = subprocess.run([*words, *offline, str(what)], capture_output=True, text=True)
    if done.returncode == 0:
        return
    if not isinstance(what, Path):
        raise SystemExit(f"ready: {what} cannot be installed\n{done.stderr[-1500:]}")
    site.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(what) as archive:
        archive.extractall(site)


if __name__ == "__main__":
    sys.exit(main())
