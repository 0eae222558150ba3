"""Format amounts of tokens, hours, money and energy, and their ranges, for sentences."""

from collections.abc import Callable

from diagnose.diagnosis.terms import Estimate

_SCALES = ((1e12, "T"), (1e9, "B"), (1e6, "M"))


def number(value: float) -> str:
    """The value with at least three digits: 12.3, 1,234, 1.33M."""
    for scale, letter in _SCALES:
        if abs(value) >= scale:
            return f"{value / scale:,.3g}{letter}" if value < 1000 * scale else f"{value / scale:,.0f}{letter}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def tokens_text(value: float) -> str:
    """ "10B tokens"."""
    return f"{number(value).replace('.00', '')} tokens"


def hours_text(hours: float) -> str:
    """Minutes below an hour, days from two on."""
    if hours < 1:
        return f"{60 * hours:.3g} min"
    return f"{hours:.3g} h" if hours < 48 else f"{hours / 24:,.3g} days" if hours < 24000 else f"{hours / 24:,.0f} days"


def between(estimate: Estimate, words: Callable[[float], str]) -> str:
    """The likely value, with its range if the formatted ends differ: "2.4 (2.33 to 2.48) days"."""
    said = [words(value) for value in estimate]
    (low, _), (likely, unit), (high, _) = (text.partition(" ")[::2] for text in said)
    if said[0] == said[2]:
        return said[1]
    if len({text.partition(" ")[2] for text in said}) > 1:
        return f"{said[1]} ({said[0]} to {said[2]})"
    return f"{likely} ({low} to {high}) {unit}".rstrip()
