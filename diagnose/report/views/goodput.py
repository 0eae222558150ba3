"""The parts of a run's wall time in words."""

from diagnose.diagnosis import Diagnosis, Goodput, Start
from diagnose.facts import duration

PARTS_ADVISED = 3  # of the start


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


def goodput_view(diagnosis: Diagnosis) -> list[tuple[str, str]] | None:
    """The parts of the wall time and those of the start, a label and a sentence each; None if they are not known."""
    line, started = goodput_line(diagnosis), start_lines(diagnosis)
    return [("goodput", line), *zip(("start", *[""] * len(started)), started, strict=False)] if line else None


def start_lines(diagnosis: Diagnosis) -> list[str]:
    """The parts of the start, and what makes each shorter, a sentence each; empty if they are not known."""
    start = diagnosis.goodput.start if diagnosis.goodput is not None else None
    if start is None or diagnosis.goodput is None:
        return []
    if not start.matters:
        share = 100 * (start.time_s + start.compiling_s) / diagnosis.goodput.wall_s
        return [f"{_start_words(start)}; it matters little: {share:.1f} % of the run"]
    of_part: dict[str, list[str]] = {}
    for each in start.advice:
        of_part.setdefault(each.what, []).append(f"{each.do}{_saving(each.saves_s)}")
    advice = [f"{what}: {'; or '.join(does)}" for what, does in of_part.items()]
    return [_start_words(start), *advice[:PARTS_ADVISED]]


def _start_words(start: Start) -> str:
    whose = f" of rank {start.rank}, which worked longest" if start.of_ranks > 1 else ""
    least_s = 0.005 * start.time_s
    parts = ", ".join(f"{what} {_seconds(took)}" for what, took in start.parts.items() if took > least_s)
    compiling = f"; compiling takes {_seconds(start.compiling_s)} more" if start.compiling_s > 0 else ""
    known = parts + (f" ({start.unknown})" if start.unknown else "")
    return f"before the first step: {_seconds(start.time_s)}{whose}, of which {known}{compiling}"


def _saving(saves_s: float) -> str:
    return f" (up to {_seconds(saves_s)} less at each start)" if saves_s > 0 else ""


def _seconds(seconds: float) -> str:
    return duration(seconds * 1e9)
