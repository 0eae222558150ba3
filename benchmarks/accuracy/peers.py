"""What others would say of the same jobs: HTA's breakdown read by published thresholds, and the GPU's utilisation.

Neither gives a verdict by itself, so each is read as generously as it can be: where it cannot tell two classes apart,
either one is right. Needs the extra hta.
"""

import logging
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from reporting import table
from simulator import simulate

from .corpus import Case
from .score import Outcome, Part, part

IDLE, COMMUNICATES = 0.15, 0.10  # of the time, from which it is the bottleneck
FED = 0.90  # utilisation, below which the GPU is taken to wait
WAITS, TALKS, WORKS = ("data-bound", "host-bound"), ("communication-bound",), ("compute-bound", "memory-bound")


@dataclass(frozen=True)
class Breakdown:
    """Parts of the time by HTA, mean of the ranks: no kernel runs; none but collectives and copies runs."""

    idle: float
    communicates: float

    @property
    def by_thresholds(self) -> tuple[str, ...]:
        """The classes that HTA's parts leave open."""
        if self.idle >= IDLE:
            return WAITS
        return TALKS if self.communicates >= COMMUNICATES else WORKS

    @property
    def by_utilisation(self) -> tuple[str, ...]:
        """The classes that utilisation leaves open: collectives keep the GPU busy, too."""
        return WAITS if 1 - self.idle < FED else (*TALKS, *WORKS)


def breakdown_of(case: Case) -> Breakdown:
    """Writes the job's traces and has HTA break down the time."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    from diagnose.commands.hta import trace_analysis

    with tempfile.TemporaryDirectory() as name:
        for rank, text in simulate(case.job).traces():
            (Path(name) / f"rank{rank}.json").write_text(text, encoding="utf-8")
        analysis = trace_analysis(name, include_last_profiler_step=True)
        parts = analysis.get_temporal_breakdown(visualize=False)
    return Breakdown(parts["idle_time_pctg"].mean() / 100, parts["non_compute_time_pctg"].mean() / 100)


def is_installed() -> bool:
    """Whether HTA is."""
    from diagnose.commands.hta.installed import require
    from diagnose.errors import UserError

    try:
        require()
    except UserError:
        return False
    return True


def asked(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The jobs with whole traces that nobody looked at, all of them where there is none such."""
    whole = [outcome for outcome in outcomes if not outcome.is_blinded]
    return [outcome for outcome in whole if outcome.case.half == "blind"] or whole


def peers(outcomes: Sequence[Outcome], jobs: int) -> str:
    """The comparison as a table in Markdown, "" where HTA is not installed or there is no job to ask about."""
    whole = asked(outcomes)
    if not whole or not is_installed():
        return ""
    with ProcessPoolExecutor(jobs) as pool:
        return beside(whole, list(pool.map(breakdown_of, [one.case for one in whole])))


def beside(whole: Sequence[Outcome], parts_of: Sequence[Breakdown]) -> str:
    """The table, of jobs and their breakdowns."""
    found = dict(zip((one.case for one in whole), parts_of, strict=True))
    by_thresholds = {case: parts.by_thresholds for case, parts in found.items()}
    by_utilisation = {case: parts.by_utilisation for case, parts in found.items()}
    rows = [
        (*_THREE, *_scores(whole, by_thresholds, (WAITS, TALKS, WORKS))),
        (*_TWO, *_scores(whole, by_utilisation, (WAITS, (*TALKS, *WORKS)))),
    ]
    return table(_HEADS, rows)


def _scores(
    outcomes: Sequence[Outcome], said: dict[Case, tuple[str, ...]], told: Sequence[tuple[str, ...]]
) -> tuple[Part, Part, Part, Part]:
    """Theirs and ours where only what they tell apart counts, then false alarms, theirs and ours."""
    healthy = [one for one in outcomes if not one.case.rules and one.truth.class_ in WORKS]
    alarmed = part(healthy, lambda one: one.truth.class_ not in said[one.case] and not _is_near(one, said[one.case]))
    same = [{*classes} for classes in told]
    ours = part(
        outcomes, lambda one: one.class_right or any({one.truth.class_, one.answer.class_} <= each for each in same)
    )
    theirs = part(outcomes, lambda one: one.truth.class_ in said[one.case] or _is_near(one, said[one.case]))
    return theirs, ours, alarmed, part(healthy, lambda one: not one.class_right)


def _is_near(outcome: Outcome, said: tuple[str, ...]) -> bool:
    return outcome.truth.near in said


_HEADS = ("read", "tells apart", "right", "diagnose, by the same classes", "alarms on healthy jobs", "diagnose")
_THREE = ("HTA, by thresholds", "waits for host or data; communicates; computes or moves")
_TWO = ("utilisation below 90 %", "waits for host or data; does not")
SOURCES = f"""\
HTA's temporal breakdown (`pip install ".[hta]"`) says how long each rank is idle, computes, or does neither. It names
no bottleneck, so its figures are read here by these thresholds:

- idle from {100 * IDLE:.0f} % on counts as waiting for host or data, the gate of
  [TraceLens](https://github.com/AMD-AGI/TraceLens) and [nsys-ai](https://github.com/GindaChen/nsys-ai);
- otherwise communication from {100 * COMMUNICATES:.0f} % on counts as communication-bound, the gate of the retired
  [TensorBoard plugin](https://github.com/pytorch/kineto/tree/v0.4.0/tb_plugin);
- otherwise the kernels decide;
- [nvidia-smi](https://docs.nvidia.com/deploy/nvidia-smi/index.html) shows the part of the time in which a kernel runs.
  HTA's busy time stands for it; below {100 * FED:.0f} % the GPU counts as not fed, a rule of thumb.

What such a figure cannot tell apart counts as right either way, and near a boundary both sides count as right, as for
diagnose. No threshold was moved to fit or to miss these jobs.

Neither can say whether host or data is late, how much of a collective is waiting for a late rank, whether memory or
arithmetic bounds the kernels, what to change, what that gains, or that a trace lacks what the answer rests on. HTA also
looks for late ranks, but its search does not know the kernel names of today's NCCL (`ncclDevKernel`) and ends in an
error. Two more tools could not be asked about these jobs: TraceML 0.5.0 measures a job while it runs and takes no
trace; nsys-ai 0.3.0 reads captures of Nsight Systems, and says of a torch.profiler trace that it holds no GPU kernels.
"""
