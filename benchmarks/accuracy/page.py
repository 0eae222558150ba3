"""The figures in words: a few lines for the terminal, and the page."""

from collections.abc import Sequence
from pathlib import Path

from reporting import table
from simulator import WholeJob

from .columns import Column, glance, side_by_side
from .corpus import tables
from .peers import SOURCES
from .real import Labelled
from .score import Part, Score
from .shown import shown
from .truth import CLASSES

PAGE = Path(__file__).parent.parent.parent / "docs" / "accuracy.md"
VERDICTS = (*CLASSES.values(), "undecided")
MOST_MISSES = 60
LEFT_OUT = "## Kinds left out"
_NONE_LEFT_OUT = "Not measured: there is no report of `python -m benchmarks.accuracy.left_out`."
HALVES = {"blind": "seeds nobody looked at", "scored on": "scored half", "tuned on": "half tuned on"}


def _rows(score: Score) -> list[tuple[str, str, str]]:
    """Question, figure, and the bar it is held against."""
    return [
        ("class right", str(score.strict), "at least 95 %"),
        ("class right, or its neighbour", str(score.class_), ""),
        ("first advice cures the fault", str(score.cause_first), ""),
        ("the fault is among the findings", str(score.cause_named), ""),
        ("late rank and its cause right, no other named", str(score.rank), ""),
        ("a rank named where none is late", str(score.accused), "at most 2 %"),
        ("a change first that buys nothing, healthy jobs", str(score.false_positives), "at most 2 %"),
        ("undecided where the trace lacks what the class rests on", str(score.abstained_right), ""),
        ("undecided where it does not", str(score.abstained_wrong), ""),
        ("median regret of the first advice", f"{100 * score.median_regret:.1f} %", "at most 3 %"),
        ("regret above 5 %", str(score.regrets_above), ""),
        ("first advice that the simulator cannot follow", str(score.unmeasured), ""),
        ("achieved inside the promised range", str(score.covered), "at least 80 %"),
        ("achieved at least the promised worst case", str(score.kept), ""),
        ("median width of a range", f"{100 * score.sharpness:.1f} %", ""),
        ("said not to help, and buys 5 % or more", str(score.wrong_negatives), "at most 1 %"),
    ]


def short(score: Score) -> str:
    """For the terminal."""
    rows = [(question, figure, bar) for question, figure, bar in _rows(score)]
    width = max(len(question) for question, _, _ in rows)
    return "\n".join(f"{q:{width}}  {figure}{f'  ({bar})' if bar else ''}" for q, figure, bar in rows)


def page(
    score: Score,
    real: Sequence[Labelled],
    realism: str,
    command: str,
    others: str = "",
    jobs: str = "",
    columns: Sequence[Column] = (),
    left_out: str = "",
) -> str:
    """The page: every figure, by halves, by class, by fault, beside others, and the misses."""
    return "\n".join([
        "<!-- Written by `python -m benchmarks.accuracy --write benchmarks/reports`. -->",
        "# How often the diagnosis is right",
        "",
        _CIRCULAR,
        glance(columns or side_by_side(score, real), score),
        "",
        _GLANCE,
        "## The simulated jobs",
        "",
        _INTRODUCTION.format(jobs=len(score.outcomes), faults=len(_names(score)), command=command),
        "",
        _figures(score),
        "",
        "## Class by class",
        "",
        "Rows are the true class, columns the verdict. A job near a boundary counts as right if the verdict is the",
        "class on its other side, or names both.",
        "",
        _confusion(score),
        "",
        f"## Fault by fault\n\n{_faults(score)}\n",
        f"## Kinds, and what shows them\n\n{_SHOWN}\n{shown()}\n",
        f"{LEFT_OUT}\n\n{left_out or _NONE_LEFT_OUT}\n",
        "## Others on the same jobs",
        "",
        others or 'Not measured: it needs HTA (pip install ".[hta]").',
        "",
        SOURCES,
        "## Real traces with an expert's label",
        "",
        _real(real),
        "",
        "## Jobs that run for real",
        "",
        jobs or "Not measured: there is no report of `python -m benchmarks.pairs`.",
        "",
        "## How real the simulated jobs look",
        "",
        realism or "Not measured: DIAGNOSE_REAL_TRACES names no folder of real traces.",
        "",
        _LIMITS,
        "## What is wrong",
        "",
        _REASONS,
        _misses(score),
        "",
    ])  # fmt: skip


def with_left_out(text: str, left_out: str) -> str:
    """The page with another section on kinds left out, and all else as it is."""
    before, _, rest = text.partition(f"{LEFT_OUT}\n")
    _, after, others = rest.partition("\n## ")
    return f"{before}{LEFT_OUT}\n\n{left_out}\n{after}{others}"


def report(text: str, today: str) -> str:
    """The page with its date, for the folder of reports."""
    dated = text.replace("# How often the diagnosis is right", f"# How often the diagnosis is right, {today}", 1)
    return dated.replace("](gpu", "](../../docs/gpu").replace("](../benchmarks/reports/", "](")


def _names(score: Score) -> dict[str, None]:
    return dict.fromkeys(outcome.case.name for outcome in score.outcomes if outcome.case.rules)


def _half(score: Score, half: str) -> Score:
    return Score([outcome for outcome in score.outcomes if outcome.case.half == half])


def _figures(score: Score) -> str:
    halves = {half: head for half, head in HALVES.items() if _half(score, half).outcomes}
    each = [[figure for _, figure, _ in _rows(_half(score, half))] for half in halves]
    rows = [(q, bar, *figures) for (q, _, bar), *figures in zip(_rows(score), *each, strict=True)]
    return table(("question", "bar", *halves.values()), rows)


def _confusion(score: Score) -> str:
    counts = score.confusion
    rows = [(true, *(counts[true, said] or "" for said in VERDICTS)) for true in CLASSES.values()]
    return table(("true", *VERDICTS), rows)


def _faults(score: Score) -> str:
    rows = []
    for name in dict.fromkeys(outcome.case.name for outcome in score.outcomes):
        some = Score([outcome for outcome in score.outcomes if outcome.case.name == name])
        case = some.outcomes[0].case
        rows.append((name, ", ".join(case.rules), _truths(some), _share(some.class_), _share(some.cause_first),
                     f"{100 * some.median_regret:.1f} %"))  # fmt: skip
    return table(("fault", "right first advice", "true class", "class", "first advice", "median regret"), rows)


def _truths(score: Score) -> str:
    return ", ".join(dict.fromkeys(outcome.truth.class_.removesuffix("-bound") for outcome in score.outcomes))


def _share(found: Part) -> str:
    return f"{found.right}/{found.of}" if found.of else ""


def _real(real: Sequence[Labelled]) -> str:
    if not real:
        return "Not measured: DIAGNOSE_REAL_TRACES names no folder of real traces."
    rows = [(one.folder, ", ".join(one.accepted), one.class_, "yes" if one.right else "no") for one in real]
    right = sum(one.right for one in real)
    return f"{right} of {len(real)} right.\n\n" + table(("trace", "accepted", "said", "right"), rows)


def _misses(score: Score) -> str:
    """The first misses of the jobs that count; the rest is printed by the command."""
    scored = (outcome for outcome in score.outcomes if outcome.case.half != "tuned on")
    told = [(outcome, line) for outcome in scored for line in outcome.misses]
    lines = [f"- {outcome.case.label}: {line}" for outcome, line in told[:MOST_MISSES]]
    more = len(told) - len(lines)
    return "\n".join([*lines, *([f"- and {more} more, which the command prints"] if more > 0 else [])])


_CIRCULAR = """\
Most of these jobs are simulated, by the authors of the analysis: the simulator times kernels by the same roofline and
the same table of peaks that the analysis reads, and what its changes gain rests on the same published measurements as
the factors of the rules. There the figures say how often the judgement is right about jobs that behave as modelled, and
the ranges are narrow because the model is the same. The other columns ran for real: they are few, and the judgement is
less often right of them.
"""
_GLANCE = """\
*Simulated, drawn figures* are the faults of one seed again, on machines whose kernels reach other parts of the peaks
(products 40 to 90 %, attention 25 to 75 %, memory 60 to 95 %, drawn for each job) and whose changes gain more or less
than the rules assume: each factor is raised to a power drawn from 0.5 to 1.7. What the first column has beyond it rests
on figures that simulator and rules share. *Further kinds* are those faults that need no GPU of their own: on a
simulated MI300X with the names that ROCm gives to calls and kernels, without loss, backward pass and update, and in
captures that hold two whole steps. *Something named where nothing is wrong* counts further simulated jobs, nine shapes
on two GPUs for nine seeds: a late rank is named, or a change comes first that buys less than 2 %. What users report
(`diagnose ledger --export`, read by `--ledger FILE`) would be one more column.

Behind each rate is its 95 % interval (Clopper and Pearson). The jobs that ran on a CPU are those of
[the pairs](#jobs-that-run-for-real), most of them with one fault each; their ranges are the usual ones, in which
eight in ten gains of real changes lie, fitted without the pairs of the same rule. The faults on GPUs are bare loops
with one fault each, on [an H200](gpu.md#known-faults) and on [an H100](gpu-h100.md#known-faults). Rules were corrected
after each. The H100 was measured twice: 18 of its 25 rows are of the second time, when rules had been corrected by
the first, and so are no test of these corrections. A range that is right because it is wide says little: read the two
rows together. `-` is not measured.
"""
_INTRODUCTION = f"""\
`{{command}}` produced these figures. It diagnoses {{jobs}} jobs with a known answer and counts how often the
diagnosis is right. {{faults}} faults and pairs of faults are injected, in up to three severities, into whole training
steps on GPUs of the public table ({", ".join(tables()["bases"])}) and into jobs of eight ranks. The rest are healthy
jobs, and traces that lack what a class rests on.

How the truth is known: each job runs again with its data, its host code or its communication made free, which shows
what holds it up, and again with each change made, which shows what each gains.

- The **best single change** is the one that gains most with as many tokens in a step.
- **Regret** is how much longer a step is with the first advice than with the best single change.
- **Seeds**: rules may be tuned on even seeds. Of the odd seeds, seed 1 is scored at each change, so whoever makes the
  change sees its misses; the others are scored only at the end. A seed draws the noise, the base and the late rank. The
  kinds of faults are the same for all seeds; what was fitted is scored on other kinds under
  [Kinds left out](#kinds-left-out).
"""
_SHOWN = """\
A rate says nothing of kinds that no job has. These are kinds that users meet, beside those of the table above:
"""
_REASONS = """The misses of the odd seeds. Most have one of these causes:

- `optimizer-for-few-tokens` comes first if a step has few tokens. It alters training, and the injected fault is named
  beside it. It also gains more than promised if work that the host does once a step is in the way.
- A late rank that costs a few percent cannot be told from the spread of the ranks, or comes after a change that gains
  more.
- A transfer that a late rank exposes is attributed to the network if that rank waits for it, too.
- What the late rank's host does after its collectives holds up the others in ways that the replay of all ranks does not
  shorten: curing a straggler in DDP and tensor parallelism gains up to 8 % more than the promised best case.
- Pauses of Python behind read-backs inside a step are taken for Python alone if they outlast the wait.
- Norms and loss have one change, `use_liger_kernel`. The finding that stands for both promises the gain of both, but is
  compared with a run in which only its own part is fused.
- Best cases from ratios of peaks (fp32 to TF32 and to bf16) fall short by 1 to 2 %.
- Two causes of similar size that hide each other, such as a slow loader under a slow host, are told apart by a
  convention.
"""
_HIDDEN = table(
    ("figure", "the simulated jobs", "what a real job may do to it"),
    [
        (
            "class right",
            f"a kernel's times vary by {100 * WholeJob.jitter:.0f} %, an operator's on the host by "
            f"{100 * WholeJob.host_jitter:.0f} %, all around the roofline",
            "kernels far from both roofs, and hosts that stutter, move it over the boundary of two classes",
        ),
        (
            "first advice right",
            "one fault or two, and a healthy rest",
            "several small faults compete for the first place: the jobs that ran have more of them",
        ),
        (
            "bought what was promised, and the width",
            "a change acts on the kernels that the rule names, by the rule's own sources",
            "it acts on others, too, and the profiler distorts what is measured: the column of drawn figures shows the "
            "first, the jobs that ran show both",
        ),
        (
            "late rank and its cause",
            "one rank, one cause, from the first step to the last, clocks that drift evenly",
            "causes that come and go, and ranks that take turns",
        ),
        (
            "something named where nothing is wrong",
            "bare steps of decoders, alike in every step",
            "evaluation, logging and steps of unequal length, which are faults nowhere and look like one",
        ),
        (
            "undecided where the trace lacks what the class rests on",
            "GPU activity is missing everywhere alike",
            "it is missing in one stretch, so that the rest looks whole",
        ),
        (
            "said not to help",
            "changes that the simulator can make",
            "all others are not tried",
        ),
    ],
)
_LIMITS = f"""\
So simulated traces can be told from real ones: this bar is missed. The simulator has the same authors as the analysis
and times kernels by the roofline, so the figures say how often the judgement is right about jobs that behave as
modelled. Kernels come in fewer kinds than in real models, and hosts stutter less. What a compiler fuses, and what
fp8 and newer attention kernels gain, are assumptions of the simulator (`benchmarks/accuracy/cures.toml`).

What this may hide, figure by figure:

{_HIDDEN}
"""
