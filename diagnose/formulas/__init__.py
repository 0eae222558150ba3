"""The formulas of the field as pure functions of numbers: model FLOPs, rooflines, collectives, energy, statistics.

Each takes plain numbers whose names carry the unit and gives the source of the formula. The rest of the package calls
them.
"""


def share(part: float | None, whole: float | None) -> float | None:
    """The part over the whole; None if one is not known, or if there is no whole to have a part: missing is never zero.

    Whoever takes a part of nothing for 0 says so: `share(part, whole) or 0.0`.
    """
    return float(part / whole) if part is not None and whole is not None and whole > 0 else None
