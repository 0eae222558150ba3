"""The terminal report of `diagnose data`: a row for each stage, the smallest, the workers and the padding."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.data.answer import LoaderRate, Padding, PaddingGain, PipelineReport, Stage, WorkersNeeded
from diagnose.diagnosis.estimates import between, number
from diagnose.facts import NEAR_NOTHING
from diagnose.report.text.columns import TextColumn, heads, line
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.one_unit import OneUnit, of_rates
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

_FUNCTIONS = 3
_LEAST_SHARE = 0.05
_COLUMNS = (
    TextColumn("samples/s", 12),
    TextColumn("error", 8, least=84),
    TextColumn("bytes/s", 14, least=72),
    TextColumn("in the job", 13, least=56),
    TextColumn("busy", 8, least=64),
)
_LOCK = {
    "held": "loading holds Python's lock (GIL): threads would take turns, worker processes do not",
    "partly": "loading holds Python's lock (GIL) part of the time: threads would take turns in that",
    "free": "loading lets go of Python's lock (GIL): threads would work at once, as worker processes do",
}


def render(report: PipelineReport, console: Console) -> None:
    """Print `report`. Nothing is measured or judged here."""
    print_head(console, _head(report), "bold yellow")
    page = Page(console)
    page.paragraph(plain(_job(report)), label="job", most=4)
    samples = f"{counted(report.samples, 'sample')} in process for {report.seconds:.0f} s; nothing was trained"
    page.paragraph(samples, label="measured")
    page.gap()
    _print_stages(page, report)
    page.gap()
    _print_more(page, report)
    for i, rate in enumerate(report.loader):
        page.paragraph(_rate(rate), label="" if i else "loader")
    for i, text in enumerate(_workers(report.workers)):
        page.paragraph(text, label="" if i else "workers")
    for i, text in enumerate(_padding(report.padding)):
        page.paragraph(text, label="" if i else "padding")
    for i, note in enumerate(report.notes):
        page.paragraph(Text(plain(note), "dim"), label="" if i else "notes")


def _head(report: PipelineReport) -> list[ScreenLine]:
    """The slowest stage, the line of code that it waits for, and the number of workers."""
    stage, needed = _smallest(report), report.workers
    where = _functions(stage)[:1] if stage else []
    short = _short_of_cores(needed.room, needed.least) if needed.least is not None else ""
    return [
        ScreenLine("verdict", _verdict(report, stage)),
        ScreenLine("why", where[0] if where else ""),
        ScreenLine("next", plain(_next(needed)), is_code=needed.least is not None),
        ScreenLine("doubt", f"the cores of the rank feed {needed.room} during training{short}" if short else ""),
    ]


def _smallest(report: PipelineReport) -> Stage | None:
    return next((each for each in report.stages if each.name == report.smallest), None)


def _verdict(report: PipelineReport, stage: Stage | None) -> str:
    if stage is None:
        return "unknown, because no stage of the loader was measured"
    rate = f"{number(stage.samples_per_s or 0)} samples/s"
    if stage.processes > 1 and stage.name != "hand-over":
        rate += f", {number(stage.in_job_samples_per_s or 0)} with the {stage.processes} workers of the job"
    because = f"; {report.smallest_because}" if report.smallest_because else ""
    return plain(f"the slowest stage is {_name(stage)}: {rate}{because}")


def _next(needed: WorkersNeeded) -> str:
    """The number of workers as it is typed, or why there is none."""
    if needed.refused:
        return f"no workers: {needed.refused}"
    if needed.first:
        return needed.first
    if needed.least is None:
        return f"the number of workers is unknown: {needed.because}"
    return "num_workers=0 is enough" if needed.least == 0 else f"DataLoader(..., num_workers={needed.most})"


def _job(report: PipelineReport) -> str:
    size = "" if report.dataset_samples is None else f", {counted(report.dataset_samples, 'sample')}"
    kind = "iterable dataset" if report.is_iterable else "dataset"
    workers = counted(report.num_workers, "worker")
    return f"{report.loop}, {kind} {report.dataset}{size}, batches of {report.batch_size:,}, {workers}"


def _print_stages(page: Page, report: PipelineReport) -> None:
    known = [stage for stage in report.stages if stage.samples_per_s is not None]
    rates = of_rates(stage.bytes_per_s for stage in known if stage.bytes_per_s is not None)
    page.line(Text(line(page, _COLUMNS, "stage", heads(_COLUMNS)), "dim"))
    for stage in known:
        style = "yellow" if stage.name == report.smallest else ""
        page.line(Text(line(page, _COLUMNS, _name(stage), _cells(stage, rates)), style))
    unknown: dict[tuple[str, str], list[str]] = {}
    for stage in report.stages:
        if stage.samples_per_s is None:
            unknown.setdefault((stage.because, stage.capture), []).append(stage.name)
    for i, ((because, capture), names) in enumerate(unknown.items()):
        do = f" -> {capture}" if capture else ""
        page.paragraph(Text(plain(f"{'; '.join(names)}: {because}{do}"), "dim"), label="" if i else "unknown")


def _name(stage: Stage) -> str:
    return f"{stage.name}: {stage.work}" if stage.work and stage.work != stage.name else stage.name


def _error(spread: float) -> str:
    return f"{100 * spread:.1f} %" if spread >= NEAR_NOTHING else "< 0.1 %"


def _cells(stage: Stage, rates: OneUnit) -> dict[str, str]:
    rate, job = stage.samples_per_s, stage.in_job_samples_per_s
    return {
        "samples/s": "" if rate is None else number(rate),
        "error": "" if stage.spread is None else _error(stage.spread),
        "bytes/s": "" if stage.bytes_per_s is None else rates.cell(stage.bytes_per_s),
        "in the job": "" if job is None else number(job),
        "busy": "" if stage.busy_share is None else f"{100 * stage.busy_share:.0f} %",
    }


def _print_more(page: Page, report: PipelineReport) -> None:
    """Print the further lines of the slowest stage, and who may load beside the training thread."""
    stage = _smallest(report)
    for i, where in enumerate(_functions(stage)[1:] if stage else []):
        page.paragraph(where, label="" if i else "also")
    if report.lock in _LOCK:
        page.paragraph(_LOCK[report.lock], label="lock")
    elif report.lock_because:
        page.paragraph(Text(plain(f"unknown, because {report.lock_because}"), "dim"), label="lock")


def _functions(stage: Stage) -> list[str]:
    """The functions that most stack samples of the stage are in."""
    shown = [each for each in stage.functions if each.share >= _LEAST_SHARE][:_FUNCTIONS]
    return [
        plain(
            f"{100 * each.share:.0f} % of its stack samples are in {each.function} ({each.file}:{each.line})"
            f"{f', which calls {each.calls}' if each.calls else ''}"
        )
        for each in shown
    ]


def _rate(rate: LoaderRate) -> str:
    who = "in process" if not rate.workers else f"with {counted(rate.workers, 'worker')}"
    if rate.samples_per_s is None:
        return plain(f"{who}: unknown, because {rate.because}")
    first = "" if rate.first_batch_s is None else f", the first batch after {rate.first_batch_s:.2g} s"
    return f"{who}: {number(rate.samples_per_s)} samples/s{first}"


def _workers(needed: WorkersNeeded) -> list[str]:
    room = "" if needed.room is None else f"the cores of the rank feed {needed.room} during training"
    lines: list[str] = []
    if needed.refused:
        return lines
    if needed.least is not None and needed.most is not None and needed.step_ms is not None:
        amount = str(needed.least) if needed.least == needed.most else f"{needed.least} to {needed.most}"
        batches = f" of {needed.batches_per_step} batches" if needed.batches_per_step > 1 else ""
        text = f"a step of {needed.step_ms:,.4g} ms{batches} ({plain(needed.step_from)}) needs {amount}"
        short = _short_of_cores(needed.room, needed.least)
        lines.append(f"{text}; {room}" if room and not short else text)
    else:
        lines += [room] if room else []
    feeds = [f"{each.workers} up to one step in {between(each.step_ms, _ms)}" for each in needed.feeds]
    return lines + ([f"workers keep up: {', '.join(feeds)}"] if feeds else [])


def _short_of_cores(room: int | None, least: int) -> str:
    if room is None or room >= least:
        return ""
    return ": it takes turns with training" if least == 1 else ": the work has to shrink or leave the run"


def _ms(value: float) -> str:
    return f"{value:,.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def _padding(padding: Padding) -> list[str]:
    if padding.kind == "unknown" and not padding.samples:
        return [f"unknown, because {plain(padding.because)}"]
    error = "" if padding.standard_error is None else f" (standard error {_error(padding.standard_error)})"
    seen = f"{counted(padding.samples, 'sample')}, {padding.mean_tokens or 0:,.0f} tokens in the mean"
    if padding.kind == "none":
        return [f"none: no token of {seen} is padding"]
    kinds = {
        "static": _STATIC.get(padding.place, ""),
        "dynamic": "dynamic: each batch is as long as its longest sample",
        "unknown": f"kind unknown: {plain(padding.because)}",
    }
    share = f"{100 * (padding.padded_share or 0):.1f} %{error} of the tokens of {padding.batches:,} batches"
    lines = [f"{kinds[padding.kind]}; {share} are padding ({seen}, {padding.longest_tokens:,} at most)"]
    for gain in padding.gains:
        lines.append(f"{gain.name}: {_gain(gain)}")
    return lines


_STATIC = {
    "dataset": "static: rows are padded before they are batched, so that they all look equally long",
    "collate function": "static: the collate function pads all batches to one length, which no sample needs",
}


def _gain(gain: PaddingGain) -> str:
    if gain.refused:
        return f"no: {plain(gain.refused)}"
    known = gain.fewer_tokens
    return f"{between(known, lambda v: f'{v:.2f}x')} fewer tokens" if known else f"unknown: {plain(gain.because)}"
