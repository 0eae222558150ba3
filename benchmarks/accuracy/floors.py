"""The floors that a subset has to reach."""

import tomllib
from pathlib import Path

from .score import Score

AT_MOST = ("false_positives", "accused", "regret", "wrong_negatives")


def figures(score: Score) -> dict[str, float]:
    """The figures that have a floor, as fractions."""
    return {
        "class": score.class_.share,
        "cause": score.cause_first.share,
        "rank": score.rank.share,
        "covered": score.covered.share,
        "false_positives": score.false_positives.share if score.false_positives.of else 0.0,
        "accused": score.accused.share if score.accused.of else 0.0,
        "regret": score.median_regret,
        "wrong_negatives": score.wrong_negatives.share if score.wrong_negatives.of else 0.0,
    }


def below_floors(score: Score) -> list[str]:
    """What is worse than `floors.toml` allows, one line each."""
    floors = tomllib.loads((Path(__file__).parent / "floors.toml").read_text(encoding="utf-8"))
    reached = figures(score)
    return [
        f"{name} is {reached[name]:.3f}, {'at most' if name in AT_MOST else 'at least'} {floor:.3f} is allowed"
        for name, floor in floors.items()
        if (reached[name] > floor if name in AT_MOST else reached[name] < floor)
    ]
