"""The figures: how often class, cause, rank, abstention, range and negative advice are right."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from .answer import Answer
from .corpus import Case
from .truth import WORTH_DOING, Truth, cures, measured_rules

UNDECIDED = "undecided"
SLACK = 0.01  # of the speed: how far a range is missed by less than the noise of two runs
WRONG_NEGATIVE = 1.05  # what is said not to help, and buys this much
MUCH_REGRET = 0.05  # of the step


@dataclass(frozen=True)
class Outcome:
    """One job: what is true of it and what was said."""

    case: Case
    truth: Truth
    answer: Answer

    @property
    def is_blinded(self) -> bool:
        """Whether the trace lacks what the class rests on."""
        return self.case.kept < 1

    @property
    def class_right(self) -> bool:
        """Whether the verdict is the true class, or one that is right, too, or names the true one beside its own."""
        if self.truth.class_ == self.answer.class_:
            return True
        close = self.truth.near == self.answer.class_ or self.truth.class_ in self.answer.between
        return bool(self.truth.near) and close

    @property
    def cause_right(self) -> bool:
        """Whether a right rule came first."""
        return self.answer.first in self.case.rules

    @property
    def cause_named(self) -> bool:
        """Whether a right rule fired at all."""
        return bool({*self.case.rules} & {*self.answer.fired})

    @property
    def late_right(self) -> bool:
        """Whether the late ranks are named with their cause, and no other but those that may be."""
        return {*self.case.late} <= {*self.answer.late} <= {*self.case.late, *self.case.may_be_late}

    @property
    def fault_gain(self) -> float:
        """What the best of the right changes buys."""
        return max((self.truth.gains.get(rule, 1.0) for rule in self.case.rules), default=1.0)

    @property
    def is_measured(self) -> bool:
        """Whether what the first advice buys is known: the simulator has its change, or it is none."""
        return self.answer.first in ("", "capture") or self.answer.first in measured_rules(self.case.job)

    @property
    def first_gain(self) -> float:
        """What the first advice buys; nothing where it changes nothing about the job."""
        return self.truth.gains.get(self.answer.first, 1.0)

    @property
    def regret(self) -> float:
        """By how much longer the step is with the first advice followed than with the best single change."""
        return max(0.0, self.truth.best[1] / self.first_gain - 1)

    @property
    def ranges(self) -> list[tuple[str, float, float, float]]:
        """Rule, promised low and high, and what it bought, of each finding whose change the job has."""
        gains, promised = self.truth.gains, self.answer.promised
        return [(rule, low, high, gains[rule]) for rule, (low, high) in promised.items() if rule in gains and high]

    @property
    def negatives(self) -> list[tuple[str, float]]:
        """What is said not to help, and what it buys."""
        rules = {words: rule for rule, cure in cures().items() for words in cure.get("words", ())}
        return [(what, self.truth.gains.get(rules[what], 1.0)) for what in self.answer.negatives if what in rules]

    @property
    def misses(self) -> list[str]:
        """What is wrong of the answer, one line each."""
        case, truth, answer, (best, gain) = self.case, self.truth, self.answer, self.truth.best
        found = []
        if self.is_blinded:
            return [] if answer.class_ == UNDECIDED else [f"says {answer.class_} of a trace without its GPU's events"]
        if not self.class_right:
            shares = ", ".join(f"{one} {100 * share:.0f} %" for one, share in truth.shares.items() if share > 0.005)
            found.append(f"is {truth.class_} ({shares}), said {answer.class_}")
        if case.rules and self.fault_gain >= WORTH_DOING and not self.cause_right:
            named = "named" if self.cause_named else "not named"
            found.append(f"needs {' or '.join(case.rules)} ({named}), first is {answer.first or 'nothing'}")
        if not self.late_right:
            found.append(f"late is {case.late}, said {answer.late}")
        if self.is_measured and self.regret > MUCH_REGRET:
            found.append(f"{best or 'nothing'} buys {gain:.2f}x, {answer.first or 'nothing'} {self.first_gain:.2f}x")
        missed = [one for one in self.ranges if not one[1] * (1 - SLACK) <= one[3] <= one[2] * (1 + SLACK)]
        found += [f"{rule} promised {low:.2f}-{high:.2f}x, bought {got:.2f}x" for rule, low, high, got in missed]
        wrong = [one for one in self.negatives if one[1] >= WRONG_NEGATIVE]
        return found + [f"{what} is said not to help, buys {got:.2f}x" for what, got in wrong]


@dataclass(frozen=True)
class Part:
    """So many of so many."""

    right: int
    of: int

    @property
    def share(self) -> float:
        """As a fraction; 1 of nothing."""
        return self.right / self.of if self.of else 1.0

    def __str__(self) -> str:
        return f"{self.right} of {self.of} ({100 * self.share:.1f} %)" if self.of else "none"


def part(outcomes: Iterable[Outcome], right: Callable[[Outcome], bool]) -> Part:
    """How many of the outcomes are right."""
    judged = [right(one) for one in outcomes]
    return Part(sum(judged), len(judged))


@dataclass(frozen=True)
class Score:
    """Every figure over some outcomes."""

    outcomes: Sequence[Outcome]

    @property
    def _seen(self) -> list[Outcome]:
        return [one for one in self.outcomes if not one.is_blinded]

    @property
    def _faulty(self) -> list[Outcome]:
        return [one for one in self._seen if one.case.rules and one.fault_gain >= WORTH_DOING]

    @property
    def strict(self) -> Part:
        """Verdicts that are the true class, near a boundary or not, of the jobs whose traces are whole."""
        return part(self._seen, lambda one: one.truth.class_ == one.answer.class_)

    @property
    def class_(self) -> Part:
        """Right classes, of the jobs whose traces are whole."""
        return part(self._seen, lambda one: one.class_right)

    @property
    def confusion(self) -> Counter[tuple[str, str]]:
        """True class and verdict."""
        return Counter((one.truth.class_, one.answer.class_) for one in self._seen)

    @property
    def cause_first(self) -> Part:
        """Jobs whose first advice cures the fault, of those where that buys something."""
        return part(self._faulty, lambda one: one.cause_right)

    @property
    def cause_named(self) -> Part:
        """Jobs among whose findings the fault is."""
        return part(self._faulty, lambda one: one.cause_named)

    @property
    def rank(self) -> Part:
        """Jobs whose late ranks are named with their cause, and no other."""
        return part((one for one in self._seen if one.case.late), lambda one: one.late_right)

    @property
    def accused(self) -> Part:
        """Jobs of several ranks without a late one, where one is named."""
        several = (one for one in self._seen if one.case.job.ranks > 1 and not one.case.late)
        return part(several, lambda one: not one.late_right)

    @property
    def false_positives(self) -> Part:
        """Healthy jobs for which a change comes first that buys nothing."""
        healthy = (one for one in self._seen if not one.case.rules and one.is_measured)
        return part(healthy, lambda one: one.answer.first not in ("", "capture") and one.first_gain < WORTH_DOING)

    @property
    def unmeasured(self) -> Part:
        """Jobs whose first advice the simulator cannot follow."""
        return part(self._seen, lambda one: not one.is_measured)

    @property
    def abstained_right(self) -> Part:
        """Undecided, of the jobs whose traces lack what the class rests on."""
        return part((one for one in self.outcomes if one.is_blinded), lambda one: one.answer.class_ == UNDECIDED)

    @property
    def abstained_wrong(self) -> Part:
        """Undecided, of the jobs whose traces are whole."""
        return part(self._seen, lambda one: one.answer.class_ == UNDECIDED)

    @property
    def median_regret(self) -> float:
        """Of the jobs whose traces are whole, and whose first advice the simulator can follow."""
        return median([one.regret for one in self._seen if one.is_measured] or [0.0])

    @property
    def regrets_above(self) -> Part:
        """Jobs whose regret is above 5 %."""
        return part((one for one in self._seen if one.is_measured), lambda one: one.regret > MUCH_REGRET)

    @property
    def covered(self) -> Part:
        """Promised ranges that hold what was achieved."""
        ranges = [one for outcome in self._seen for one in outcome.ranges]
        inside = [low * (1 - SLACK) <= got <= high * (1 + SLACK) for _, low, high, got in ranges]
        return Part(sum(inside), len(inside))

    @property
    def kept(self) -> Part:
        """Promised ranges whose worst case was achieved."""
        ranges = [one for outcome in self._seen for one in outcome.ranges]
        return Part(sum(got >= low * (1 - SLACK) for _, low, _, got in ranges), len(ranges))

    @property
    def sharpness(self) -> float:
        """Median width of a range, of its lower end."""
        return median([high / low - 1 for one in self._seen for _, low, high, _ in one.ranges] or [0.0])

    @property
    def wrong_negatives(self) -> Part:
        """Changes said not to help that would."""
        told = [gain for one in self._seen for _, gain in one.negatives]
        return Part(sum(gain >= WRONG_NEGATIVE for gain in told), len(told))
