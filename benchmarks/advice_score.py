"""How the first advice of a small job is scored: what was told, what happened to who followed it, what it bought."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from advice_jobs.kinds import Kind

NOISE = 0.03  # a mean of some dozen steps is no better than that; where the repeats lie further apart, that counts
OTHERS = 0.10  # share of the cores that other processes may take in a run that counts
_SAMPLES = re.compile(r"^samples (\d+) (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Told:
    """What `diagnose run` said.

    Attributes:
        rule: of the first advice; "" for nothing.
        promised: its gain.
        patch: what its patch sets.
        class_: of the verdict.
        text: the first advice as the user reads it, or the last line of a run that had no report.
        busy: whether it said that other processes took the cores.
        tried: whether `--apply` can make the change.
    """

    rule: str
    promised: tuple[float, float | None] | None
    patch: Mapping[str, object]
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
    def inside(self) -> bool | None:
        """Whether the measured gain lies in the promised range; None where either is missing."""
        if not self.speedups or self.told.promised is None or self.withheld:
            return None
        low, high = self.told.promised
        middle = median(self.speedups)
        noise = max(NOISE, 1.48 * median(abs(one - middle) for one in self.speedups) / middle)
        return low * (1 - noise) <= middle <= (math.inf if high is None else high) * (1 + noise)


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
    if first["kind"] != "change":
        return Told("", None, {}, verdict["class"], text, busy)
    promised = first["predicted_speedup"]
    return Told(
        first["rule"], promised and (promised[0], promised[1]), patch.get("set", {}), verdict["class"], text, busy,
        bool(patch.get("set") or patch.get("by_run")) and not patch.get("typed_because"),
    )  # fmt: skip


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
