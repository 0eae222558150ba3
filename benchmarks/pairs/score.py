"""How the advice for a small job is scored: what was told, what happened to who followed it, what it bought."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from advice_jobs.kinds import Kind

NOISE = 0.03  # a mean of some dozen steps is no better than that; where the repeats lie further apart, that counts
OTHERS = 0.10  # share of the cores that other processes may take in a run that counts
SCALE = 1.48  # of the median deviation, as wide as the standard deviation of a normal distribution
_SAMPLES = re.compile(r"\bsamples (\d+) (\d+)\b")


@dataclass(frozen=True)
class Offer:
    """What a finding promises: the range of the gain, null for no upper end, the likely value; the cases, if others."""

    low: float
    high: float | None = None
    likely: float | None = None
    cases: tuple[float, float | None] | None = None

    @property
    def width(self) -> float | None:
        """The high end over the low one."""
        return self.high / self.low if self.high is not None and self.low > 0 else None

    def holds(self, gain: float, noise: float) -> bool:
        """Whether the gain lies in the range, but for the noise."""
        return self.low * (1 - noise) <= gain <= (math.inf if self.high is None else self.high) * (1 + noise)


@dataclass(frozen=True)
class Told:
    """What `diagnose run` said.

    Attributes:
        rule: of the first advice; "" for nothing.
        offers: what each rule promises that fired, the first advice among them.
        patch: what its patch sets.
        class_: of the verdict.
        text: the first advice as the user reads it, or the last line of a run that had no report.
        busy: whether it said that other processes took the cores.
        tried: whether `--apply` can make the change.
    """

    rule: str
    offers: Mapping[str, Offer] = field(default_factory=dict)
    patch: Mapping[str, object] = field(default_factory=dict)
    class_: str = ""
    text: str = ""
    busy: bool = False
    tried: bool = False


@dataclass(frozen=True)
class Ran:
    """A run of a job: its mean step, the samples it saw, the CPU that others took, and why it failed."""

    step_ns: int | None
    samples: tuple[int, int] | None = None
    others: float = 0.0
    failed: str = ""

    def crowded(self, limit: float = OTHERS) -> bool:
        """Whether other processes took so much that its time says nothing."""
        return self.others >= limit


@dataclass(frozen=True)
class Outcome:
    """One kind: what was told, the measured speed-up of each repeat, and what befell who followed.

    Attributes:
        kind: of job.
        told: by `diagnose run`.
        speedups: none where there is no advice to follow, or only crowded repeats.
        typed: "ran", "refused" or "crashed" for the change that `--apply` makes; "" where it makes none.
        samples: whether each form saw the samples of the job as it is; None where none are counted.
        failures: of the job as it is, and of the form followed by hand.
        crowded: whether other processes took the cores in each try.
        missing: packages without which the job does not run, or what else keeps it from being slow.
    """

    kind: Kind
    told: Told
    speedups: tuple[float, ...] = ()
    typed: str = ""
    samples: bool | None = None
    failures: tuple[str, ...] = field(default=())
    crowded: bool = False
    missing: tuple[str, ...] = ()

    @property
    def withheld(self) -> bool:
        """Whether the run judges nothing. Who says "too busy" of a machine that was not is wrong."""
        return self.crowded or bool(self.missing)

    @property
    def advice_right(self) -> bool:
        """Whether one of the right rules came first, in the right words; or none, where nothing is worth doing."""
        return right(self.kind, self.told)

    @property
    def right(self) -> bool:
        """Whether the advice is right, and following it neither crashes nor changes which samples are seen."""
        return not self.withheld and self.advice_right and self.harmless

    @property
    def harmless(self) -> bool:
        """Whether no form crashed or saw other samples."""
        return self.typed != "crashed" and self.samples is not False and not self.failures

    @property
    def class_right(self) -> bool | None:
        """Whether the class is one of those that the job has by how it is made; None where that is not stated."""
        return self.told.class_ in self.kind.classes if self.kind.classes and not self.withheld else None

    @property
    def offer(self) -> Offer | None:
        """The promise for the change that was followed: of the right rule, first advice or not; None without one."""
        rules = (self.told.rule, *self.kind.right) if self.advice_right else self.kind.right
        return next((self.told.offers[rule] for rule in rules if rule in self.told.offers), None)

    @property
    def gain(self) -> float | None:
        """What following bought: the median of the repeats."""
        return median(self.speedups) if self.speedups else None

    @property
    def noise(self) -> float:
        """How far the gain may be off: the spread of the repeats, no less than that of a mean of some dozen steps."""
        middle = median(self.speedups)
        return max(NOISE, SCALE * median(abs(one - middle) for one in self.speedups) / middle)

    @property
    def inside(self) -> bool | None:
        """Whether what following bought lies in the promised range; None where either is missing."""
        if self.gain is None or self.offer is None or self.withheld:
            return None
        return self.offer.holds(self.gain, self.noise)

    @property
    def off(self) -> float | None:
        """How far the likely value lies from the gain, as a share of it; None where there is none."""
        likely = self.offer.likely if self.offer is not None else None
        return None if likely is None or self.gain is None or self.withheld else abs(likely / self.gain - 1)


def right(kind: Kind, told: Told) -> bool:
    """By the rule where the kind names some, and by the words where it names those."""
    if kind.never and re.search(kind.never, told.text):
        return False
    if kind.says and not re.search(kind.says, told.text):
        return False
    return told.rule in (kind.right or (("",) if not kind.says else (told.rule,)))


def told_of(diagnosis: Mapping[str, Any]) -> Told:
    """The first advice of a diagnosis; a better capture counts as none."""
    first, verdict = diagnosis["next"], diagnosis["verdict"]
    busy = "too busy" in json.dumps(verdict) or first.get("action") == "keep other work off these cores"
    patch = first.get("patch") or {}
    said = (first.get("action"), first.get("do"), first.get("says"), *map(_line, first.get("where") or ()))
    text = " ".join(filter(None, (*said, patch.get("code"), _settings(patch.get("set", {})))))
    offers = dict(_offers([*diagnosis.get("findings", ()), first]))
    if first["kind"] != "change":
        return Told("", offers, class_=verdict["class"], text=text, busy=busy)
    by_run = bool(patch.get("set") or patch.get("by_run")) and not patch.get("typed_because")
    return Told(first["rule"], offers, patch.get("set", {}), verdict["class"], text, busy, by_run)


def _offers(said: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Offer]]:
    for each in said:
        if cases := each["predicted_speedup"]:
            usual = each.get("usual_speedup")
            yield each["rule"], Offer(*(usual or cases), each.get("likely_speedup"), tuple(cases) if usual else None)


def _line(where: Any) -> str:
    return where if isinstance(where, str) else json.dumps(where)


def _settings(settings: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def samples_of(output: str) -> tuple[int, int] | None:
    """The sum of the digests and the count of samples of all ranks; None where the job counts none."""
    found = [(int(digest), int(count)) for digest, count in _SAMPLES.findall(output)]
    return (sum(each for each, _ in found) % 2**64, sum(each for _, each in found)) if found else None


def same_samples(runs: Sequence[Ran]) -> bool | None:
    """Whether all runs that ended saw the same samples; None where fewer than two counted any."""
    seen = [run.samples for run in runs if run.samples is not None and not run.failed]
    return len(set(seen)) == 1 if len(seen) > 1 else None


def others_share(busy_s: float, own_s: float, wall_s: float, cores: int) -> float:
    """The share of the cores that processes other than the run took."""
    return max(0.0, busy_s - own_s) / (wall_s * cores)
