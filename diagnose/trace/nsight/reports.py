"""Reports of Nsight Systems (`.nsys-rep`), in a format that only nsys reads: it exports them, if it is installed."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from diagnose.errors import UserError, printable

SUFFIXES = (".nsys-rep", ".qdrep")  # the second is of versions before 2021.4
NSYS = "nsys"
INSTALL = "https://developer.nvidia.com/nsight-systems, or the package nsight-systems-cli of NVIDIA's repositories"
_LONGEST_REASON = 300


def is_report(path: Path) -> bool:
    """Whether the file is a report, by its name."""
    return path.suffix in SUFFIXES and path.is_file()


def reports_in(folder: Path, exported: Sequence[str]) -> list[Path]:
    """The reports of a folder without a file that ends as one of `exported`, which is read as it is."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError:
        return []
    return [] if any(path.name.endswith(tuple(exported)) for path in files) else [p for p in files if is_report(p)]


def exported_to(folder: Path, reports: Sequence[Path]) -> Mapping[str, str]:
    """Exports the reports to the folder; the name that each new file is known by.

    Raises:
        UserError: nsys is not installed, or cannot export one of them.
    """
    names: dict[str, str] = {}
    for report in reports:
        target = folder / f"{report.name}.sqlite"  # a stem may be that of both suffixes
        export(report, target)
        names[str(target)] = str(report)
    return names


def export(report: Path, target: Path) -> None:
    """Writes the report as an SQLite database.

    Raises:
        UserError: nsys is not installed, or cannot.
    """
    command = f"{NSYS} export --type=sqlite {printable(report.name)}"
    nsys = shutil.which(NSYS)
    if nsys is None:
        raise UserError(
            "cannot read a report of Nsight Systems",
            where=report,
            why="only nsys can export it, and nsys is not on the PATH here",
            do=f"{command} where it is installed, and pass the .sqlite file; or install it: {INSTALL}",
        )
    options = ("--type=sqlite", "--force-overwrite=true", f"--output={target}")
    try:
        import subprocess

        ended = subprocess.run([nsys, "export", *options, str(report.resolve())], capture_output=True, check=False)
    except OSError as error:
        raise UserError("cannot run nsys", where=nsys, why=error.strerror or str(error)) from error
    if ended.returncode or not target.is_file():
        told = " ".join((ended.stderr or ended.stdout).decode("utf-8", "replace").split())[-_LONGEST_REASON:]
        why = printable(told) or f"it ended with {ended.returncode}"
        raise UserError("nsys cannot export the report", where=report, why=why, do=f"try it by hand: {command}")
