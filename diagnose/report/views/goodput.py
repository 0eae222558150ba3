"""The parts of a run's wall time in words."""

from diagnose.diagnosis import Diagnosis, Goodput
from diagnose.facts import duration


def goodput_words(goodput: Goodput) -> str:
    """The parts with their shares, and the wall time that they are of; parts that take nothing are left out."""
    parts = [f"{part.what} {100 * part.share:.1f} %" for part in goodput.parts if part.time_s > 0 or part.share > 0]
    return f"{', '.join(parts)} of the {duration(goodput.wall_s * 1e9)}"


def goodput_line(diagnosis: Diagnosis) -> str | None:
    """The parts of the process's wall time; None if they are not known."""
    if diagnosis.goodput is None:
        return None
    until = "the process ran" if diagnosis.goodput.ended else "from the start of the process to the end of the capture"
    return f"{goodput_words(diagnosis.goodput)} {until}"
