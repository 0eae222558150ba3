"""Decide whether a run is slower than allowed."""

from diagnose.commands.compare.answer import Comparison


def regression(comparison: Comparison, tolerance_share: float) -> str:
    """Why the later run is a regression: slower beyond noise and tolerance, or another job; else ""."""
    if comparison.verdict == "not_comparable" or comparison.speedup is None:
        return f"the runs cannot be compared: {comparison.because}"
    slower = 1 / comparison.speedup[1] - 1
    if comparison.verdict != "worse" or slower <= tolerance_share:
        return ""
    of = "the step takes" if comparison.speedup_of == "step time" else f"by {comparison.speedup_of} the same work takes"
    return f"{of} {100 * slower:.1f} % longer, beyond the noise and the tolerance of {100 * tolerance_share:g} %"
