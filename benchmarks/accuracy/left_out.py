"""Scores the class and the promised ranges on kinds of faults that nothing was fitted on.

python -m benchmarks.accuracy.left_out                              # 100 seconds on two cores
python -m benchmarks.accuracy.left_out --write benchmarks/reports   # with the dated report, and its part of the page

A halving deals the mechanisms of faults at random to two halves. What is fitted on either is scored on the other, so
that each job is scored once. The breakdowns are recorded once and judged again at each value of a threshold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from textwrap import fill

from promises import Pair, Usual, by_others, held, kept_pairs, middle, usual
from reporting import page, parser, publish, table

from diagnose.predict.real_gains import positions

from .columns import cell, real_cpu
from .kept_reports import kinds_left_out
from .mechanisms import Mechanisms, mechanisms_of
from .page import PAGE, with_left_out
from .recorded import Recorded, all_recorded, judged, shipped, true_classes
from .refit import TRIED, Said, best_value, by_threshold, scale_of
from .run import cases_of
from .score import Outcome, Part, Score

SETS = {"simulated": ("full", (3,)), "simulated, drawn figures": ("drawn", ())}  # seeds nobody looked at
HALVINGS = range(100)
BAR = 0.95  # of the classes


@dataclass(frozen=True)
class Fold:
    """The jobs of mechanisms that were left out, judged by what was fitted on the others."""

    outcomes: Sequence[Outcome]
    thresholds: Mapping[str, float]


@dataclass(frozen=True)
class Corpus:
    """Recorded jobs, by shipped values and by those that were fitted on a part of them."""

    records: Sequence[Recorded]

    @cached_property
    def shipped(self) -> Score:
        """By shipped values."""
        return Score([one.outcome for one in self.records])

    @cached_property
    def mechanisms(self) -> Mechanisms:
        """By the kinds of these jobs."""
        return mechanisms_of(one.outcome.case for one in self.records)

    @cached_property
    def homes(self) -> list[str]:
        """The mechanism of each job."""
        return [self.mechanisms.home(one.outcome.case) for one in self.records]

    @cached_property
    def said(self) -> dict[str, Said]:
        """The class of each job at each value of the thresholds that classes depend on."""
        return by_threshold(self.records)

    def fold(self, left_out: frozenset[str]) -> Fold:
        """Fitted on jobs that have nothing of these mechanisms, scored on those of them."""
        outcomes, others = self.shipped.outcomes, {*self.homes} - left_out
        fitted = [job for job, one in enumerate(outcomes) if self.mechanisms.within(one.case, others)]
        true = [one.truth.class_ for one in outcomes]
        found = {name: best_value(said, true, fitted) for name, said in self.said.items()}
        scale = scale_of([outcomes[job] for job in fitted])
        scored = [one for one, home in zip(self.records, self.homes, strict=True) if home in left_out]
        changed = zip(judged(scored, found), (scale.of(one.outcome) for one in scored), strict=True)
        return Fold([replace(one, answer=replace(one.answer, class_=class_)) for class_, one in changed], found)

    @cached_property
    def halvings(self) -> list[tuple[Fold, Fold]]:
        """Both halves of each, scored by what was fitted on the other."""
        halves = [self.mechanisms.halves(self.homes, seed) for seed in HALVINGS]
        return [(self.fold(one), self.fold(other)) for one, other in halves]

    @cached_property
    def scores(self) -> list[Score]:
        """Of each halving."""
        return [Score([*one.outcomes, *other.outcomes]) for one, other in self.halvings]

    @cached_property
    def alone(self) -> Score:
        """Of every job, judged by what was fitted without its mechanism alone."""
        return Score([one for home in dict.fromkeys(self.homes) for one in self.fold(frozenset({home})).outcomes])

    def spotless(self, score: Score) -> Part:
        """The mechanisms of which each job has its class right."""
        wrong = {self.mechanisms.home(one.case) for one in score.outcomes if not _is_right(one)}
        return Part(len({*self.homes} - wrong), len({*self.homes}))


def _is_right(one: Outcome) -> bool:
    return one.truth.class_ == one.answer.class_


def figures(corpus: Corpus) -> str:
    """Each figure by what is shipped, and by what was refitted without the job's kind."""
    rows = []
    for name, (part_of, beside) in _FIGURES.items():
        halvings = sorted(corpus.scores, key=lambda score: part_of(corpus, score).share)
        chosen = (corpus.shipped, halvings[(len(halvings) - 1) // 2], halvings[0], corpus.alone)
        rows.append((name, *(cell(part_of(corpus, score)) + beside(score) for score in chosen)))
    heads = ("as shipped", f"median of {len(corpus.scores)} halvings", "worst halving", "its mechanism alone left out")
    return table(("", *heads), rows)


_FIGURES: Mapping[str, tuple[Callable[[Corpus, Score], Part], Callable[[Score], str]]] = {
    "class right": (lambda corpus, score: score.strict, lambda score: ""),
    "mechanisms without a wrong class": (lambda corpus, score: corpus.spotless(score), lambda score: ""),
    "bought what was promised": (
        lambda corpus, score: score.covered,
        lambda score: f", median range {1 + score.sharpness:.2f}x",
    ),
}


def in_view(corpus: Corpus) -> str:
    """How much of the shipped figures may come from their having been chosen in view of all kinds."""
    reach = sum(score.strict.share >= BAR for score in corpus.scores)
    shares: Sequence[Callable[[Score], float]] = (lambda score: score.strict.share, lambda score: score.covered.share)
    class_, held = (f"{100 * (of(corpus.shipped) - median(map(of, corpus.scores))):.1f}" for of in shares)
    refitted = median(1 + score.sharpness for score in corpus.scores)
    return (
        f"The class is right in {100 * BAR:.0f} % or more of the jobs in {reach} of {len(corpus.scores)} halvings. "
        "Shipped values were chosen in view of all kinds: beside values fitted without the kind, that buys, in the "
        f"median, {class_} points of the classes and {held} points of the promises, at a median range of "
        f"{1 + corpus.shipped.sharpness:.2f}x instead of {refitted:.2f}x."
    )


def thresholds(corpus: Corpus) -> str:
    """What the class depends on, the values that halves gave it, and what nothing depends on."""
    folds = [fold for pair in corpus.halvings for fold in pair]
    told = [
        f"`{name}` is {100 * value:.3g} % as shipped, and {_span(folds, name)} as fitted on halves."
        for name, value in shipped(tuple(corpus.said)).items()
    ]
    idle = ", ".join(f"`{name}`" for name in TRIED if name not in corpus.said)
    return " ".join([*told, f"No job's class changes with {idle}, so these cannot be fitted here." if idle else ""])


def _span(folds: Sequence[Fold], name: str) -> str:
    low, *_, high = sorted(100 * fold.thresholds[name] for fold in folds)
    return f"{low:.3g} to {high:.3g} %"


def by_convention(corpus: Corpus) -> str:
    """How often the class is right where it is named from another share of the step on, in truth and verdict."""
    rows = []
    for share in (0.10, 0.15, 0.20, 0.25, 0.30):
        named = {"NAMES_THE_CLASS": share}
        both = zip(judged(corpus.records, named), true_classes(corpus.records, named), strict=True)
        right = [said == true for said, true in both]
        rows.append((f"{100 * share:.0f} %", cell(Part(sum(right), len(right)))))
    return table(("class named from, in truth and verdict", "class right"), rows)


def in_one_mechanism(corpus: Corpus) -> str:
    """How many rules promise something in one mechanism alone: nothing else says how good their factors are."""
    seen: dict[str, set[str]] = {}
    for one, home in zip(corpus.shipped.outcomes, corpus.homes, strict=True):
        for rule, *_ in one.ranges:
            seen.setdefault(rule, set()).add(home)
    once = sum(len(homes) == 1 for homes in seen.values())
    return f"Of {len(seen)} rules whose promise is measured, {once} promise something in one mechanism alone."


def wrong_alone(corpora: Mapping[str, Corpus]) -> str:
    """The jobs whose class is wrong by what was fitted without their mechanism."""
    rows = [
        (name, one.case.label, one.truth.class_, one.answer.class_, "yes" if one.case in wrong else "no")
        for name, corpus in corpora.items()
        for wrong in [[each.case for each in corpus.shipped.outcomes if not _is_right(each)]]
        for one in corpus.alone.outcomes
        if not _is_right(one)
    ]
    return table(("jobs", "job", "true", "said", "wrong as shipped, too"), rows)


def of_several_kinds(corpus: Corpus) -> str:
    """The mechanisms of more than one kind."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for kind, mechanisms in corpus.mechanisms.of_kind.items():
        alike.setdefault(mechanisms, []).append(kind)
    rows = [["; ".join(kinds)] for mechanisms, kinds in alike.items() if len(kinds) > 1]
    return table(("kinds of one mechanism",), rows)


def on_a_cpu(pairs: Sequence[Pair]) -> str:
    """Where in its range a real gain lies, by the pairs of other rules."""
    without = {rule: middle(pair for pair in pairs if pair.rule != rule) for rule in {pair.rule for pair in pairs}}
    low, *_, high = sorted(without.values())
    stated, fitted = positions()["cpu"].likely, middle(pairs)
    left_out = (f"{low:.2f} to {high:.2f}", _off(pairs, lambda pair: without[pair.rule]))
    rows = [
        ("as shipped", f"{stated:.2f}", _off(pairs, lambda pair: stated)),
        ("fitted on all", f"{fitted:.2f}", _off(pairs, lambda pair: fitted)),
        (_WITHOUT_ITS_RULE, *left_out),
    ]
    told = table(("likely value", "between the cases at", "off by, in the median"), rows)
    shipped, of_all = Usual(positions()["cpu"].low, positions()["cpu"].beyond), usual(pairs)
    ranges = {
        "from worst to best case": pairs,
        "usual, as shipped": [pair.usual(shipped) for pair in pairs],
        "usual, fitted on all": [pair.usual(of_all) for pair in pairs],
        f"usual, {_WITHOUT_ITS_RULE}": by_others(pairs),
    }
    told += "\n\n" + table(("range", "inside"), ([name, held(of)] for name, of in ranges.items()))
    about = f"{len(pairs)} pairs of {len(without)} rules. Class right: {cell(real_cpu().strict)}."
    return f"{about}\n\n{told}"


def _off(pairs: Sequence[Pair], at: Callable[[Pair], float]) -> str:
    return f"{100 * median(abs(pair.at(at(pair)) / pair.measured - 1) for pair in pairs):.1f} %"


def text_of(corpora: Mapping[str, Corpus], pairs: Sequence[Pair]) -> str:
    """The report."""
    each = [
        f"### {name.capitalize()}\n\n{len(corpus.records)} jobs of {len({*corpus.homes})} mechanisms.\n\n"
        f"{figures(corpus)}\n\n" + fill(f"{in_view(corpus)} {thresholds(corpus)} {in_one_mechanism(corpus)}", 120)
        for name, corpus in corpora.items()
    ]
    first = next(iter(corpora.values()))
    return page(
        "Kinds left out", _ABOUT, *each,
        "### Wrong class with its mechanism left out", wrong_alone(corpora),
        "### Another convention", _CONVENTION, by_convention(first),
        "### Real jobs on a CPU", on_a_cpu(pairs),
        "### Mechanisms", _MECHANISMS, of_several_kinds(first),
        "### What this does not say", _LIMITS,
    )  # fmt: skip


def main() -> None:
    """Runs the jobs, fits, and prints the report."""
    options = parser(__doc__)
    options.add_argument("--jobs", type=int, default=2, help="processes")
    asked = options.parse_args()
    records = {name: all_recorded(cases_of(subset, seeds), asked.jobs) for name, (subset, seeds) in SETS.items()}
    corpora = {name: Corpus([one for one in each if not one.outcome.is_blinded]) for name, each in records.items()}
    publish(text_of(corpora, kept_pairs()), asked.write, "left-out")
    if asked.write:
        renewed = with_left_out(PAGE.read_text(encoding="utf-8"), kinds_left_out(asked.write))
        PAGE.write_text(renewed, encoding="utf-8")


_WITHOUT_ITS_RULE = "fitted without all pairs of its rule"
_ABOUT = """\
What was fitted without a kind of fault, scored on it. A halving deals the mechanisms of faults at random to two halves,
and each half is scored by what was fitted on the other. Fitted are the thresholds that a job's class depends on, by
points, for most classes right (of equals the middle); and for the rules of each class where in its range a gain lies,
with the width at which ranges hold as much of the fitted half as the shipped ones do. Behind each count is its 95 %
interval (Clopper and Pearson), as if the jobs of a mechanism were independent, which they are not."""
_CONVENTION = """\
The true class is itself named from 20 % of the step on (`NAMES_THE_CLASS`), so that a fit of that share can only find
whether shares are measured too high or too low: that it finds 20 % again is no evidence for 20 %. Where truth and
verdict both name the class from another share on, the measured shares are held to another boundary."""
_MECHANISMS = """\
Kinds that one rule cures, or that delay a rank for the same cause, stay on one side. `straggler`, which cures any late
rank, joins nothing. Two faults at once are scored with the mechanism of the first, and fitted on only if neither of
their mechanisms is left out."""
_LIMITS = """\
What comes before the shares of the classes is not refitted: how an idle gap gets its cause
(`diagnose/attribution/idle.py`), how the roofline tells compute from memory, and the conditions under which rules fire
or doubt a verdict. Nor are the factors of a rule, which need its own kinds: only how their ranges lie about what was
bought. All simulated kinds are of the authors of the analysis. The real kinds are scored as they are, and rules
were corrected after some of them."""


if __name__ == "__main__":
    main()
