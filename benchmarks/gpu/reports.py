"""The dated reports and the page `docs/gpu.md`, written from the summaries of the calls.

    python benchmarks/gpu/reports.py SUMMARY... [--ladder REPORT.md] [--into benchmarks/reports] [--page docs/gpu.md]

The summaries are the files `summary-callN.json` that the calls left, in the order in which they ran. A part that no
call ran has no report.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import card_tables as more
import job_tables as tables
from told_pages import Call, holding, origin, read

Write = Callable[[Sequence[Call]], str]
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Report:
    """A report: its name, title, parts, what it is about, and its sections; what is beside them is not on the page."""

    name: str
    title: str
    parts: tuple[str, ...]
    about: str
    sections: tuple[tuple[str, Write], ...]
    beside: tuple[tuple[str, Write], ...] = ()


CAPTURES = ("captures", "captures-again", "captures-more")
REPORTS = (
    Report(
        "captures-gpu", "Captures", CAPTURES,
        "Jobs of transformers' Trainer under `diagnose run --stop`: Llama-3.2-1B with 7 x 1,024 tokens in bf16 (eager, "
        "SDPA, SDPA with Liger, compiled, with checkpointing), and OPT-1.3B with SDPA and Liger's setting. `ms traced` "
        "is the device's step in the window, `ms without profiler` the step just before it, `factor` their quotient as "
        "the record has it.",
        (("", tables.captures), ("Promised and achieved", tables.pairs), ("Where the peak goes", tables.parts_of_step)),
        (("All findings", tables.findings),),
    ),
    Report(
        "tune-gpu", "A tune from the slowest form", ("tune-told",),
        "`diagnose tune --runs 8 --allow-numerics` of Llama-3.2-1B in fp32 with eager attention, 6 x 1,024 tokens. "
        "Achieved gains have their 99 % interval; `of run 0` is the gain since the first run.",
        (("", tables.tune), ("What failed", tables.failures)),
    ),
    Report(
        "faults-gpu", "Known faults", ("faults", "faults-rest"),
        "Bare loops with one fault each under `diagnose run`. The remedy is made by hand in a process without the "
        "probe, and its gain is that of throughput. `right` is by the truth in `benchmarks/gpu/fault_table.py`; "
        "`promised` is what the rule of that remedy said, wherever among the findings it stood. Each row is the last "
        "run of that fault.",
        (("", tables.faults), ("Score", tables.score), ("Where the tool was wrong", tables.wrong),
         ("Remedies that bought nothing", tables.too_little), ("Step times", tables.fault_times)),
        (("All findings", tables.fault_findings),),
    ),
    Report(
        "peaks", "What the card reaches", ("peaks",),
        "Medians by CUDA events behind a warm-up, on random data, with inputs that take turns. Attention counts half "
        "of the scores as work; products count m x n x k.",
        (("", more.peaks), ("Beside the table of GPUs", more.beside_constants)),
    ),
    Report(
        "fit-gpu", "Fit beside jobs that ran", ("fit", "limits"),
        "`diagnose fit` for this card beside jobs of transformers' Trainer, 16 steps each, random tokens, the median "
        "step; and the largest micro-batch of Llama-3.2-1B with 1,024 tokens in bf16. `fit / ran` above 1 means that "
        "fit foretold a longer step.",
        (("", more.fit), ("Largest micro-batch", tables.limits)),
    ),
    Report(
        "overhead-gpu", "What the probe costs", ("overhead", "residue", "faults"),
        "The mean step of a loop of 24 linear layers (256 wide: small steps, 2,048 wide: larger steps), alone, under "
        "`diagnose run` behind its window, and armed; three processes a round, in turns.",
        (("", more.overhead), ("Noise", more.noise), ("What a recording leaves behind", more.residue),
         ("Behind the window over before it, known faults that wait for the host", more.behind)),
    ),
    Report(
        "paths-gpu", "Paths that need CUDA", ("cuda-paths", "graphs", "nsight", "environment"),
        "Each path of the product that only runs with CUDA, by itself; jobs whose step is captured as a CUDA graph in "
        "every phase of the window; Nsight Systems.",
        (("", more.paths), ("CUDA graphs", more.graphs), ("Readings of NVML", more.readings),
         ("Nsight Systems", more.nsight)),
    ),
)  # fmt: skip


def sections(of: Sequence[tuple[str, Write]], calls: Sequence[Call], depth: str) -> Iterator[str]:
    """The sections that have something to say."""
    for title, write in of:
        text = write(calls).strip()
        if text:
            yield f"{depth} {title}\n\n{text}" if title else text


def filled(text: str) -> str:
    """A paragraph in lines as long as those of the other pages."""
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def written(report: Report, calls: Sequence[Call]) -> str:
    """The report as Markdown."""
    of = holding(calls, *report.parts)
    head = f"# {report.title}, {of[-1].date}\n\n{origin(calls, of)}\n\n{filled(report.about)}"
    return "\n\n".join((head, *sections((*report.sections, *report.beside), calls, "##"))) + "\n"


def ladder_of(path: Path, calls: Sequence[Call]) -> str:
    """The ladder's own report, with the commit and the call that made it."""
    of = holding(calls, "ladder")[-1]
    title, _, rest = path.read_text(encoding="utf-8").partition("\n")
    made = f"- commit `{of.commit}`, call {of.number} of `benchmarks/gpu/call.sh`, which runs it row by row"
    return f"{title}\n\n{made}\n{rest.lstrip()}"


def page(calls: Sequence[Call], ladder: Path | None, date: str) -> str:
    """docs/gpu.md."""
    parts = [MARK, f"# On a GPU\n\n{origin(calls, calls)}\n\n{LEAD}" if calls else f"# On a GPU\n\n{NOT_YET}"]
    for report in REPORTS:
        if holding(calls, *report.parts):
            about = f"{report.about} [Report](../benchmarks/reports/{report.name}-{date}.md)."
            parts += [f"## {report.title}", filled(about), *sections(report.sections, calls, "###")]
    if ladder is not None:
        rows = [line for line in ladder.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
        link = f"[report](../benchmarks/reports/ladder-gpu-{date}.md)"
        about = f"Llama-3.2-1B, row by row, beside what the recorded board reached ({link})."
        parts += ["## The ladder", about, "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


MARK = "<!-- Written by `python benchmarks/gpu/reports.py`. -->"
LEAD = """Everything on this page was measured on **one card, once** unless a table says otherwise. Several GPUs were
never run. `bash benchmarks/gpu/call.sh 1` (to `4`) measures the same on another card, in at most ten minutes each, and
`python benchmarks/gpu/reports.py` writes this page from what they leave. Classes, advice and promises are those of the
commit above. Rules that were corrected since are held to these captures by `tests/test_measured_jobs.py`, which proves
nothing of other cards and jobs: the next run does."""
NOT_YET = """Not run yet. `bash benchmarks/gpu/call.sh 1` (to `4`) measures a card in at most ten minutes each, and
`python benchmarks/gpu/reports.py` writes this page from what they leave."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the reports and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("summaries", nargs="+", type=Path)
    parser.add_argument("--ladder", type=Path, help="the report in Markdown that the ladder wrote")
    parser.add_argument("--into", type=Path, default=ROOT / "benchmarks" / "reports")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "gpu.md")
    asked = parser.parse_args(arguments)
    calls = [read(path) for path in asked.summaries]
    asked.into.mkdir(parents=True, exist_ok=True)
    date = max(call.date for call in calls)
    for report in REPORTS:
        if holding(calls, *report.parts):
            (asked.into / f"{report.name}-{date}.md").write_text(written(report, calls), encoding="utf-8")
    if asked.ladder:
        (asked.into / f"ladder-gpu-{date}.md").write_text(ladder_of(asked.ladder, calls), encoding="utf-8")
    asked.page.write_text(page(calls, asked.ladder, date), encoding="utf-8")


if __name__ == "__main__":
    main()
