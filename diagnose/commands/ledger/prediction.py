"""A prediction that was tested, as it is kept: the predicted and the achieved speed, and the hardware."""

import datetime
import hashlib
import math
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from diagnose.diagnosis import Diagnosis, Estimate
from diagnose.diagnosis.promise import Judgement, standing_of
from diagnose.errors import printable
from diagnose.version import __version__

FORMAT = 1
LONGEST_NAME = 80
MOST_FACTOR = 1e9
MOST_RULES = 16
RULE = re.compile(r"[a-z0-9-]{1,80}")
VERSION = re.compile(r"[0-9][0-9A-Za-z.]{0,39}")
PACKAGES = ("torch", "transformers")
Source = Literal["apply", "compare", "tune"]
SOURCES: tuple[str, ...] = get_args(Source)
Predicted = tuple[float, float | None, float | None]
Achieved = tuple[float | None, float, float | None]
_CPU_NAME = re.compile(r"^(?:model name|Model|Hardware)\s*:\s*(\S.*)$", re.MULTILINE)
_MOST_CPU_BYTES = 1 << 16


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted speedup and the achieved one. It names no path, host, script, network or user.

    Attributes:
        format: version of this record.
        date: when it was put to the test: the day in UTC, and no time of it.
        rules: whose change it was, several if one change is made for several rules.
        predicted: [low, likely, high] of the whole step's speed; likely is null if only the ends were predicted, high
            if the best case is not known.
        achieved: [low, measured, high]; the ends are null if the noise is not known.
        inside: whether the measured speed fell in the predicted range.
        hardware: the GPU's or the CPU's model, "" if it is not known.
        ranks: processes of the job.
        versions: of torch, transformers and diagnose, as far as they are known, without local labels.
        source: the command that measured it.
        key: a hash that names the measured run and the rules, so that it is kept once.
    """

    format: int = FORMAT
    date: str
    rules: tuple[str, ...]
    predicted: Predicted
    achieved: Achieved
    inside: bool
    hardware: str = ""
    ranks: int = 1
    versions: dict[str, str] = {}
    source: Source
    key: str

    @property
    def of_predicted(self) -> float:
        """The measured speed over the likely one; if only the ends are known, over their geometric mean."""
        low, likely, high = self.predicted
        return self.achieved[1] / (likely if likely is not None else low if high is None else math.sqrt(low * high))


def prediction_of(
    diagnosis: Diagnosis,
    rules: Sequence[str],
    predicted: Predicted,
    achieved: Achieved,
    source: Source,
) -> Prediction | None:
    """The prediction that the run of `diagnosis`, in which the change is in use, puts to the test.

    None if it cannot be kept: a speed that is not positive, a range in no order, no rule.
    """
    low, _, high = predicted
    numbers = [number for number in (*predicted, *achieved) if number is not None]
    sound = all(0 < number <= MOST_FACTOR for number in numbers) and (high is None or low <= high)
    if not sound or not 0 < len(rules) <= MOST_RULES or not all(map(RULE.fullmatch, rules)):
        return None
    return Prediction(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        rules=tuple(rules),
        predicted=_rounded(predicted),
        achieved=_rounded(achieved),
        inside=fell_inside(predicted, achieved),
        hardware=_hardware(diagnosis),
        ranks=max(len(diagnosis.ranks) + len(diagnosis.trace.missing_ranks), 1),
        versions=_versions(diagnosis.versions),
        source=source,
        key=_key(diagnosis, rules),
    )


def prediction_of_patch(
    diagnosis: Diagnosis, source: Source = "apply", achieved: Estimate | None = None, judged: Judgement | None = None
) -> Prediction | None:
    """The prediction of the patch that the run was started with (`diagnosis.applied`).

    None if there is no prediction or measurement, if it cannot be judged, or if a part of the patch is not in use: the
    prediction is of the whole.

    Args:
        diagnosis: of the run with the patch.
        source: the command that asks.
        achieved: a better measurement than that of `applied`.
        judged: by that measurement, where that is known already.
    """
    applied = diagnosis.applied
    if applied is None or applied.refused or not applied.rule or applied.predicted_speedup is None:
        return None
    measured, (low, high) = achieved or applied.measured, applied.predicted_speedup
    judgement = judged or applied.judged_by(measured)
    if measured is None or judgement is None or judgement.standing == "unjudged":
        return None
    return prediction_of(diagnosis, [applied.rule], (low, None, high), measured, source)


def fell_inside(predicted: Predicted, achieved: Achieved) -> bool:
    """Whether the measured speed is in the predicted range, which reports call "as predicted"."""
    return standing_of(achieved[1], (predicted[0], predicted[2])) == "as"


def _rounded(numbers: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    one, two, three = (None if number is None else float(f"{number:.6g}") for number in numbers)
    return one, two, three


def _hardware(diagnosis: Diagnosis) -> str:
    """The model of the first rank's GPU; without a GPU that of this machine's CPU, which ran the job."""
    name = diagnosis.ranks[0].device if diagnosis.ranks else ""
    name = this_cpu() if name == "CPU" else "" if name == "unknown device" else name
    return printable(name)[:LONGEST_NAME]


def this_cpu() -> str:
    """The model of this machine's CPU, by the kernel, else its architecture."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            named = _CPU_NAME.search(file.read(_MOST_CPU_BYTES))
    except OSError:
        named = None
    return " ".join(named[1].split()) if named else platform.machine()


def _versions(known: Mapping[str, str]) -> dict[str, str]:
    """Versions without what follows `+`: a custom build may be named after a machine or a company."""
    found = {name: known[name].partition("+")[0] for name in PACKAGES if name in known}
    found["diagnose"] = __version__.partition("+")[0]
    return {name: version for name, version in found.items() if VERSION.fullmatch(version)}


def _key(diagnosis: Diagnosis, rules: Sequence[str]) -> str:
    """A hash of the run's times in nanoseconds, which no two runs share, and the rules."""
    steps = diagnosis.steps
    told = [*sorted(rules), steps.count, steps.time_ns, steps.device_time_ns, steps.uncounted_ns, len(diagnosis.ranks)]
    return hashlib.sha256(" ".join(map(str, told)).encode()).hexdigest()[:24]
