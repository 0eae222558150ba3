"""The main figures of all kinds of evidence side by side: simulated jobs, and what ran for real."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec
from promises import FITTED
from reporting import REPORTS, table

from diagnose.commands.ledger.command import Exported

from .interval import interval
from .kept_reports import newest_pairs
from .real import Labelled
from .score import Part, Score

_OF = r"(\d+) of (\d+)"
_RANGE = re.compile(r"\| (\d+\.\d+)-(\d+\.\d+)x \|")


@dataclass(frozen=True)
class Column:
    """One kind of evidence; None for what it does not tell.

    Attributes:
        strict: the verdict is the true class.
        near: it is, or is the class on the other side of a boundary that the job is near.
        first: the first advice cures the fault.
        inside: what the change bought lies in the promised range.
        width: of the median range, high end over low end.
        accused: a change or a late rank is named where there is none.
    """

    head: str
    strict: Part | None = None
    near: Part | None = None
    first: Part | None = None
    inside: Part | None = None
    width: float | None = None
    accused: Part | None = None


def simulated(score: Score, healthy: Score | None = None) -> Column:
    """The seeds that nobody looked at, all of them without any; `healthy` are further jobs without a fault."""
    blind = Score([one for one in score.outcomes if one.case.half == "blind"] or score.outcomes)
    both = Score([*blind.outcomes, *(healthy.outcomes if healthy is not None else ())])
    accused, needless = both.accused, both.false_positives
    return Column(
        "simulated",
        blind.strict,
        blind.class_,
        blind.cause_first,
        blind.covered,
        1 + blind.sharpness,
        Part(accused.right + needless.right, accused.of + needless.of),
    )


def of_faults(head: str, score: Score) -> Column:
    """Faults alone: on machines of drawn figures, or of further kinds."""
    return Column(head, score.strict, score.class_, score.cause_first, score.covered, 1 + score.sharpness)


def reported(exports: Sequence[Path]) -> Iterator[Column]:
    """What users measured, by their files of `diagnose ledger --export`: nothing without a file."""
    documents = [msgspec.json.decode(path.read_bytes(), type=Exported) for path in exports]
    promises = [promise for document in documents for promise in document.promises]
    ranges = [promise.predicted for promise in promises]
    widths = [high / low for low, _, high in ranges if high is not None and low > 0]
    if promises:
        inside = Part(sum(promise.inside for promise in promises), len(promises))
        yield Column("reported by users", inside=inside, width=median(widths) if widths else None)


def real_cpu(folder: Path = REPORTS) -> Column:
    """The newest report of `python -m benchmarks.pairs`; nothing without one."""
    newest = newest_pairs(folder)
    text = newest.read_text(encoding="utf-8") if newest is not None else ""
    return Column(
        "jobs run on a CPU",
        _told(text, rf"class right: {_OF}"),
        None,
        _told(text, rf"first advice right: {_OF}"),
        _told(text, rf"{FITTED}: {_OF}"),
        _told_width(text),
    )


def of_others(real: Sequence[Labelled]) -> Column:
    """Traces of others, with the classes that an expert would accept, the likeliest first."""
    strict = Part(sum(one.class_ == one.accepted[0] for one in real), len(real))
    return Column("traces of others", strict, Part(sum(one.right for one in real), len(real)))


def gpus(folder: Path = REPORTS) -> Iterator[Column]:
    """Each report of known faults on a GPU."""
    for path in sorted(folder.glob("faults-gpu-*.md")):
        text = path.read_text(encoding="utf-8")
        card = re.search(r"One (?:NVIDIA )?(\S+)", text)
        yield Column(
            f"faults on an {card[1] if card else 'unknown GPU'}",
            _told(text, rf"class was right in {_OF}"),
            None,
            _told(text, rf"first advice in {_OF}"),
            _told(text, rf"widened by 5 %, in {_OF}"),
            _width(text),
        )


def _told(text: str, pattern: str) -> Part | None:
    found = _found(text, pattern)
    return Part(int(found[1]), int(found[2])) if found else None


def _told_width(text: str) -> float | None:
    found = _found(text, rf"{FITTED}: {_OF}, median width ([\d.]+)x")
    return float(found[3]) if found else None


def _found(text: str, pattern: str) -> re.Match[str] | None:
    return re.search(pattern, re.sub(r"\s+", " ", text))


def _width(text: str) -> float | None:
    widths = [float(found[2]) / float(found[1]) for found in _RANGE.finditer(text) if float(found[1]) > 0]
    return median(widths) if widths else None


def side_by_side(
    score: Score,
    real: Sequence[Labelled],
    healthy: Score | None = None,
    drawn: Score | None = None,
    further: Score | None = None,
    ledgers: Sequence[Path] = (),
) -> list[Column]:
    """All columns: of the corpus with its further healthy jobs, of drawn figures and further kinds, and what ran for
    real.
    """
    others = (("simulated, drawn figures", drawn), ("simulated, further kinds", further))
    beside = [of_faults(head, score) for head, score in others if score is not None]
    return [simulated(score, healthy), *beside, real_cpu(), of_others(real), *gpus(), *reported(ledgers)]


def glance(columns: Sequence[Column], score: Score) -> str:
    """The table, and the class that most jobs have, as a verdict for all."""
    rows: list[tuple[str, Callable[[Column], Part | float | None]]] = [
        ("class right", lambda column: column.strict),
        ("class right, or its neighbour", lambda column: column.near),
        ("first advice right", lambda column: column.first),
        ("bought what was promised", lambda column: column.inside),
        ("median range, high over low", lambda column: column.width),
        ("something named where nothing is wrong", lambda column: column.accused),
    ]
    cells = [(name, *(cell(of(column)) for column in columns)) for name, of in rows]
    always = max(_always(score), key=lambda each: each[1].share)
    base = f"A verdict of {always[0]} for every simulated job would be right in {cell(always[1])}."
    return table(("", *(column.head for column in columns)), cells) + f"\n\n{base}"


def _always(score: Score) -> Iterator[tuple[str, Part]]:
    whole = [one.truth.class_ for one in score.outcomes if not one.is_blinded]
    for class_ in dict.fromkeys(whole):
        yield class_, Part(whole.count(class_), len(whole))


def cell(value: Part | float | None) -> str:
    """A count with its share and interval, a factor, or - for what is not measured."""
    if value is None or (isinstance(value, Part) and not value.of):
        return "-"
    if not isinstance(value, Part):
        return f"{value:.2f}x"
    low, high = interval(value.right, value.of)
    return f"{value.right} of {value.of}, {100 * value.share:.1f} % ({100 * low:.0f} to {100 * high:.0f})"
