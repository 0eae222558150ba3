"""The report on real pairs: a row for each kind of job, and what the rows come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from advice_jobs.timing import where
from promises import FITTED, Pair, by_others, held
from promises import written as pairs_written
from reporting import free_name, machine, page, table, today

from .following import TRIES
from .score import NOISE, OTHERS, Offer, Outcome

HEADS = ("job", "class", "first advice", "right", "promised", "likely", "achieved", "inside", "typed", "samples")
WIDTHS = (37, 20, 24, 16, 12, 6, 20, 8, 8, 0)
_TITLE = "Real pairs on a CPU"


def row(outcome: Outcome) -> tuple[str, ...]:
    """The outcome as the table shows it."""
    kind, told, offer = outcome.kind, outcome.told, outcome.offer
    return (
        kind.name,
        told.class_ + ("" if outcome.class_right is not False else f", not {' or '.join(kind.classes)}"),
        told.rule or "nothing",
        verdict(outcome),
        "" if offer is None else _range(offer),
        "" if offer is None or offer.likely is None else f"{offer.likely:.2f}x",
        _achieved(outcome.speedups),
        {True: "yes", False: "no", None: "not promised" if outcome.gain else ""}[outcome.inside],
        outcome.typed,
        {True: "same", False: "changed", None: ""}[outcome.samples],
    )


def _range(offer: Offer) -> str:
    return f"{offer.low:.2f}-{'' if offer.high is None else f'{offer.high:.2f}'}x"


def _achieved(speedups: Sequence[float]) -> str:
    """The median, and from the lowest to the highest repeat where there are several."""
    if not speedups:
        return ""
    spread = f" ({min(speedups):.2f} to {max(speedups):.2f})" if len(speedups) > 1 else ""
    return f"{median(speedups):.2f}x{spread}"


def verdict(outcome: Outcome) -> str:
    """Whether the first advice is right, and what is wrong with it."""
    if outcome.missing:
        return f"left out: needs {', '.join(outcome.missing)}"
    if outcome.crowded:
        return "withheld"
    wrong = () if outcome.advice_right else (f"not {outcome.kind.truth}",)
    crashed = ("crashes when typed",) if outcome.typed == "crashed" else ()
    changed = ("other samples",) if outcome.samples is False else ()
    return "yes" if outcome.right else f"no: {'; '.join((*wrong, *crashed, *changed, *outcome.failures))}"


def line(cells: Sequence[str]) -> str:
    """A row of the table in a terminal."""
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many first pieces of advice are right; how many gains lie in their ranges, and how wide those are."""
    inside = [one.inside for one in outcomes if one.inside is not None]
    classes = [one.class_right for one in outcomes if one.class_right is not None]
    seen = [one.samples for one in outcomes if one.samples is not None]
    typed = [one.typed for one in outcomes if one.typed]
    withheld, left_out = sum(one.crowded for one in outcomes), sum(bool(one.missing) for one in outcomes)
    return "; ".join(
        (
            f"class right: {sum(classes)} of {len(classes)}",
            f"first advice right: {sum(one.right for one in outcomes)} of {len(outcomes)}"
            f" ({withheld} withheld, {left_out} left out)",
            f"gain inside the range as shown: {sum(inside)} of {len(inside)}{_widths(outcomes)}",
            *_by_positions(_pairs(outcomes)),
            f"gains of 5 % or more that nothing promised: {sum(map(_unforeseen, outcomes))}",
            f"crashes when typed: {typed.count('crashed')} of {len(typed)}",
            f"other samples: {seen.count(False)} of {len(seen)}",
        )
    )


def _by_positions(pairs: Sequence[Pair]) -> Iterator[str]:
    """The same with usual ranges that no pair of the same rule had a part in, and with the cases for ends."""
    if pairs:
        yield f"{FITTED}: {held(by_others(pairs))}"
        yield f"inside from worst to best case: {held(pairs)}"


def _pairs(outcomes: Sequence[Outcome]) -> list[Pair]:
    return [pair for one in outcomes if (pair := _pair(one)) is not None]


def _widths(outcomes: Sequence[Outcome]) -> str:
    """The median width of the ranges that were tested, and how far their likely values are off."""
    tested = [one for one in outcomes if one.inside is not None]
    widths = [one.offer.width for one in tested if one.offer is not None and one.offer.width is not None]
    off = [one.off for one in tested if one.off is not None]
    return (f", median width {median(widths):.2f}x" if widths else "") + (
        f", likely value off by {median(off):.0%} in the median" if off else ""
    )


def _unforeseen(outcome: Outcome) -> bool:
    return not outcome.withheld and outcome.gain is not None and outcome.gain >= 1.05 and outcome.offer is None


def written(outcomes: Sequence[Outcome], folder: Path, state: str) -> tuple[Path, Path]:
    """The dated report, and the pairs as a table that `benchmarks/promises.py` reads."""
    about = (
        f"Ratios of mean steps on {where()}, the job as it is and with the advice followed in turns: the median and, in"
        " brackets, the lowest and highest repeat. Promised is the range of the right rule as reports show it, first or"
        f" not. Inside allows {NOISE:.0%} for noise, and the spread of the repeats where that is more (1.48 times their"
        " median deviation). Typed is what `diagnose run --apply` made of the first advice; samples says whether all"
        f" forms of the job saw the same. Withheld is what other processes took {OTHERS:.0%} of the cores from in"
        f" {TRIES} tries. State of what judges and of the jobs: {state}."
    )
    rows = ([cell.replace("|", " or ") for cell in row(one)] for one in outcomes)
    path = folder / f"{free_name(folder, f'pairs-{today()}')}.md"
    path.write_text(page(_TITLE, about, summary(outcomes), table(HEADS, rows)), encoding="utf-8")
    return path, pairs_written(_pairs(outcomes), folder)


def _pair(outcome: Outcome) -> Pair | None:
    """The pair as other benchmarks read it; None without a promise, or for one with no upper end."""
    offer, gain = outcome.offer, outcome.gain
    if outcome.inside is None or offer is None or offer.high is None or gain is None:
        return None
    worst, best = offer.cases or (offer.low, offer.high)
    rule = next(rule for rule, one in outcome.told.offers.items() if one is offer)
    on = machine().partition(", load")[0]
    ends = (round(worst, 2), round(best or offer.high, 2), round(gain, 2))
    return Pair(outcome.kind.name, rule, *ends, on, round(outcome.noise, 3))
