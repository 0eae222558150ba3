"""Packs what a machine without a network needs into the ignored folder `.whl`, and prints the calls.

    python benchmarks/gpu/pack.py [--freeze FILE]

`.whl` then holds the wheel of this checkout, for any Python from 3.11 on, and wheels for CPython 3.12 on x86-64 of what
that machine lacks: all that is required and not in FILE, the output of `pip freeze` there. Without FILE it is taken to
hold torch, Triton, transformers and accelerate with what they require. Nothing of the folder is tracked.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from wheels import COMPILED, PACKED, built, canonical, commit, compiled, metadata_of, output, requires

ROOT = Path(__file__).resolve().parents[2]
ASKED = ("liger-kernel", "nvtx")  # what the jobs take beside what the product requires
PRESUMED = ("torch", "triton", "transformers", "accelerate")
PLATFORMS = [f"manylinux_2_{n}_x86_64" for n in (39, 35, 34, 31, 28, 27, 24, 17)] + ["manylinux2014_x86_64", "any"]
THERE = {
    "python_version": "3.12", "python_full_version": "3.12.3", "sys_platform": "linux", "platform_system": "Linux",
    "platform_machine": "x86_64", "os_name": "posix", "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}  # fmt: skip


def main() -> int:
    """Pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freeze", type=Path, help="what the machine holds, as `pip freeze` prints it there")
    asked = parser.parse_args()
    if platform.machine() != "x86_64":
        print(f"pack: this machine is {platform.machine()}: what it compiles does not load on x86-64", file=sys.stderr)
        return 1
    there = frozen(asked.freeze) if asked.freeze else presumed()
    folder = emptied(ROOT)
    wheel = built(ROOT, folder, sys.executable)
    if len(compiled(wheel)) != COMPILED:
        print(
            f"pack: {len(compiled(wheel))} of {COMPILED} modules were compiled: is there a C compiler?", file=sys.stderr
        )
        return 1
    for each in (*requires(metadata_of(wheel), **THERE), *ASKED):
        bring(each, folder, there)
    (folder / "commit.txt").write_text(commit(ROOT) + "\n")
    told(folder)
    return 0


def frozen(path: Path) -> set[str]:
    """The names in the output of `pip freeze`."""
    return {canonical(line) for line in path.read_text().splitlines() if line.strip() and line[0] not in "#-"}


def presumed() -> set[str]:
    """What is presumed, and what it requires here."""
    found: set[str] = set()
    left = list(PRESUMED)
    while left:
        name = canonical(left.pop())
        if name not in found:
            found.add(name)
            try:
                left += requires(importlib.metadata.distribution(name).requires or [], **THERE)
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def emptied(root: Path) -> Path:
    """The folder without wheels, in the checkout's own list of what git leaves alone."""
    exclude = root / output("git", "rev-parse", "--git-path", "info/exclude", cwd=root).strip()
    text, line = exclude.read_text() if exclude.is_file() else "", f"/{PACKED}/"
    if line not in text.splitlines():
        exclude.parent.mkdir(parents=True, exist_ok=True)
        exclude.write_text(text + ("" if text.endswith("\n") or not text else "\n") + line + "\n")
    folder = root / PACKED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def bring(asked: str, folder: Path, there: set[str]) -> None:
    """A wheel and what it requires, except what the machine has; each once."""
    if canonical(asked) in there:
        return
    there.add(canonical(asked))
    before = set(folder.glob("*.whl"))
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    words += ["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312", "--abi", "abi3", "--abi", "none"]
    words += [word for each in PLATFORMS for word in ("--platform", each)]
    done = subprocess.run([*words, asked], capture_output=True, text=True)
    new = set(folder.glob("*.whl")) - before
    if done.returncode or not new:
        raise SystemExit(f"pack: {asked} cannot be downloaded\n{done.stderr[-1500:]}")
    for each in requires(metadata_of(new.pop()), **THERE):
        bring(each, folder, there)


def told(folder: Path) -> None:
    """Size and calls."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    print(f"{PACKED}: {size:.1f} MiB in {len(list(folder.glob('*.whl')))} wheels; it has to travel with the checkout\n")
    for number in range(1, 5):
        print(f"  bash benchmarks/gpu/call.sh {number}")


if __name__ == "__main__":
    sys.exit(main())
