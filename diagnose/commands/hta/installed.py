"""Detect the installed HolisticTraceAnalysis, and refuse what it cannot do."""

from diagnose.errors import UserError, to_install

_NAMES = ("HolisticTraceAnalysis", "traceinsight")  # of the same project, before and since version 0.6
_INSTALL = to_install("hta")


def require() -> None:
    """Refuses to go on without exactly one distribution of HolisticTraceAnalysis.

    Raises:
        UserError: none is installed, or both of its names are.
    """
    found = [name for name in _NAMES if _version(name)]
    if not found:
        raise UserError("HolisticTraceAnalysis is not installed", do=_INSTALL)
    if len(found) > 1:
        raise UserError(
            "both HolisticTraceAnalysis and traceinsight are installed",
            why="they are one project under two names and overwrite each other's files in the module `hta`",
            do=f"pip uninstall -y HolisticTraceAnalysis traceinsight, then {_INSTALL}",
        )


def require_critical_path() -> None:
    """Refuse the versions whose critical path fails.

    Raises:
        UserError: HolisticTraceAnalysis 0.5 with pandas 3.
    """
    hta, pandas = _version(_NAMES[0]), _version("pandas")
    if hta.startswith("0.5.") and int(pandas.split(".")[0] or 0) >= 3:
        raise UserError(
            f"the critical path of HolisticTraceAnalysis {hta} fails with pandas {pandas}",
            why="it drops columns in a way that pandas 3 refuses; all its other analyses run",
            do='pip install "pandas>=2.2,<3"',
        )


def _version(distribution: str) -> str:
    from importlib import metadata  # loads a parser of mail, and few commands ask

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
