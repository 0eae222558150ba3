"""Which rank and cause the analysis names for each simulated fault, and whom it accuses where nobody is at fault.

    python benchmarks/ranks_confusion.py --seeds 20 --ranks 8 --report benchmarks/reports/

Every seed is another job of synthetic traces (simulator/): another late rank, other jitter, other clocks, each up to
3 ms off and drifting up to 50 ppm. Two nodes, the rate of whose network is stated; a slow link is that between the
ranks of one node. Where one process group holds all ranks, every rank moves at the pace of the slowest link: then the
right answer is that transfers are slow, and that the traces cannot tell which link.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from measuring import rules_read_once
from reporting import parser, publish, table, today
from simulator import CAUSES, KINDS, Clocks, Fault, Job, Kind, simulate
from simulator.job import PARALLELISMS

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import LatenessCause

SKEW = Clocks(offset_ms=3, drift_ppm=50)
WORTH_NAMING = 0.05  # of the step
NOBODY, ANOTHER, UNTOLD = "nobody", "another rank", "slow transfer, link not told"
OUTCOMES = (*get_args(LatenessCause), UNTOLD, NOBODY, ANOTHER)
ONE_GROUP = ("ddp", "fsdp")
SLOW_TRANSFER = ("slow-network", "slow-links")


@dataclass(frozen=True)
class Case:
    """One simulated job and what was named: `slowdown` is the part of the step that the fault makes up.

    `tells_links` says whether the job has groups of which a slow link makes some slower than others.
    """

    kind: Kind
    outcome: str
    slowdown: float
    note: str
    tells_links: bool = True

    @property
    def right(self) -> bool:
        """Whether the right rank was named with the right cause, or nobody where nobody is at fault.

        Nobody is right too where the fault hardly prolongs the step, as in a pipeline whose bubbles hide it.
        """
        hidden = self.slowdown < WORTH_NAMING and self.outcome == NOBODY
        untold = self.kind == "slow_link" and not self.tells_links and self.outcome == UNTOLD
        return hidden or untold or self.outcome == (CAUSES[self.kind] or NOBODY)


def job_of(kind: Kind, seed: int, stated: argparse.Namespace) -> Job:
    """The job of one seed; its late rank moves with the seed, except the one that writes checkpoints."""
    late = 0 if kind == "checkpoint" else (5 * seed + 3) % stated.ranks
    node = max(stated.ranks // 2, 1)
    ranks = tuple(range(late // node * node, late // node * node + node)) if kind == "slow_link" else (late,)
    return Job(
        ranks=stated.ranks, ranks_per_node=node, steps=stated.steps, seed=seed, parallelism=stated.parallelism,
        gpu=not stated.gloo, seq=not stated.no_seq, clocks=SKEW,
        faults=() if kind == "none" else (Fault(kind, ranks),),
    )  # fmt: skip


def cases(stated: argparse.Namespace) -> Iterator[Case]:
    """Every kind of fault with every seed."""
    for kind in stated.kinds or KINDS:
        for seed in range(stated.seeds):
            yield judged(kind, job_of(kind, seed, stated), seed)


def judged(kind: Kind, job: Job, seed: int) -> Case:
    """Simulates the job, analyses it, and compares."""
    with tempfile.TemporaryDirectory() as folder:
        truth = simulate(job).write(Path(folder))
        answer = analyze(folder, options=Options(network_gbs=_network_gbs(job)))
    stragglers = answer.stragglers
    faulty = {rank for fault in job.faults for rank in fault.ranks if CAUSES[fault.kind]}
    outcome = _outcome(answer, faulty)
    named = ", ".join(f"rank {s.rank}: {s.cause}" for s in stragglers) or outcome
    truly = f"rank {','.join(map(str, sorted(faulty)))}: {CAUSES[kind]}" if faulty else NOBODY
    slowdown = sum(truth.slowdown_ms) / sum(truth.step_ms)
    note = f"{kind}, seed {seed}: {named}; true is {truly}"
    return Case(kind, outcome, slowdown, note, job.parallelism not in ONE_GROUP)


def _network_gbs(job: Job) -> float:
    """Of a node, as `--network-gbs` states it."""
    return job.links.network_bytes_per_s_per_rank * job.ranks_per_node / 1e9


def _outcome(answer: Diagnosis, faulty: set[int]) -> str:
    if any(s.rank not in faulty for s in answer.stragglers):
        return ANOTHER
    if answer.stragglers:
        return answer.stragglers[0].cause
    return UNTOLD if any(f.rule in SLOW_TRANSFER for f in answer.findings) else NOBODY


def report(judged_cases: Sequence[Case], stated: argparse.Namespace, command: str) -> str:
    """The confusion table, in Markdown."""
    outcomes = [o for o in OUTCOMES if any(c.outcome == o for c in judged_cases) or o in (UNTOLD, NOBODY, ANOTHER)]
    rows = []
    for kind in dict.fromkeys(c.kind for c in judged_cases):
        of_kind = [c for c in judged_cases if c.kind == kind]
        counts = Counter(c.outcome for c in of_kind)
        share = sum(c.slowdown for c in of_kind) / len(of_kind)
        right = f"{sum(c.right for c in of_kind)}/{len(of_kind)}"
        rows.append([kind, CAUSES[kind] or NOBODY, f"{share:.0%}", *(counts[o] or "" for o in outcomes), right])
    return f"""# Ranks and causes named, simulated jobs, {today()}

`{command}`: synthetic traces of {stated.ranks} ranks, {stated.parallelism}, {stated.steps} steps, seeds 0 to
{stated.seeds - 1}; each host's clock up to {SKEW.offset_ms:g} ms off and drifting up to {SKEW.drift_ppm:g} ppm.
Columns: the cause named for the faulty rank; "{UNTOLD}", a finding that transfers are slow, which is the
right answer to a slow link where one process group holds all ranks; nobody; or another rank accused. Where nobody is at
fault, nobody is right, as it is where the fault makes up less than {WORTH_NAMING:.0%} of the step, which the third
column holds.

{table(["fault", "true cause", "share of the step", *outcomes, "right"], rows)}

{summary(judged_cases)}
"""


def summary(judged_cases: Sequence[Case]) -> str:
    """What counts, in one paragraph."""
    at_fault = [c for c in judged_cases if CAUSES[c.kind]]
    named = [c for c in at_fault if c.outcome not in (NOBODY, ANOTHER, UNTOLD)]
    innocent = [c for c in judged_cases if not CAUSES[c.kind]]
    return (
        f"Right rank named: {len(named)} of {len(at_fault)}; with the right cause: {sum(c.right for c in named)}. "
        f"Slow transfers found, the link not told: {sum(c.outcome == UNTOLD for c in at_fault)}. "
        f"Left unnamed at {WORTH_NAMING:.0%} of the step or more: "
        f"{sum(c.outcome == NOBODY and not c.right for c in at_fault)}. "
        f"Another rank accused: {sum(c.outcome == ANOTHER for c in at_fault)}. "
        f"Somebody named where nobody is at fault: {sum(c.outcome != NOBODY for c in innocent)} of {len(innocent)}."
    )


def main() -> None:
    """Runs the cases and prints the table; what was missed goes to the error stream."""
    options = parser(__doc__, writes=False)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--parallelism", choices=PARALLELISMS, default="ddp")
    options.add_argument("--kinds", nargs="*", choices=list(KINDS), help="all of them unless named")
    options.add_argument("--gloo", action="store_true", help="jobs on CPUs")
    options.add_argument("--no-seq", action="store_true", help="as torch wrote traces before 2.12")
    options.add_argument("--report", type=Path, help="folder for the dated report")
    stated = options.parse_args()
    judged_cases = []
    with rules_read_once():
        for case in cases(stated):
            judged_cases.append(case)
            if not case.right:
                print(case.note, file=sys.stderr, flush=True)
    command = f"python benchmarks/ranks_confusion.py {' '.join(a for a in sys.argv[1:])}"
    publish(report(judged_cases, stated, command), stated.report, f"ranks-confusion-{stated.parallelism}")


if __name__ == "__main__":
    main()
