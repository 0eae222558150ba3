"""The terminal report of `diagnose data`: a row for each stage, the smallest, the workers and the padding."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.data.answer import LoaderRate, Padding, PaddingGain, PipelineReport, Stage, WorkersNeeded
from diagnose.diagnosis.estimates import between, number
from diagnose.facts import spoken
from diagnose.report.text.columns import TextColumn, heads, line
from diagnose.report.text.page import Page
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
    page = Page(console)
    page.paragraph(plain(_job(report)), label="job:", most=4)
    samples = f"{counted(report.samples, 'sample')} in process, {report.seconds:.0f} s in all; nothing was trained"
    page.paragraph(samples, label="measured:")
    page.gap()
    _print_stages(page, report)
    page.gap()
    _print_smallest(page, report)
    for i, rate in enumerate(report.loader):
        page.paragraph(_rate(rate), label="" if i else "loader:")
    for i, text in enumerate(_workers(report.workers)):
        page.paragraph(text, label="" if i else "workers:")
    for i, text in enumerate(_padding(report.padding)):
        page.paragraph(text, label="" if i else "padding:")
    for i, note in enumerate(report.notes):
        page.paragraph(Text(plain(note), "dim"), label="" if i else "notes:")


def _job(report: PipelineReport) -> str:
    size = "" if report.dataset_samples is None else f", {counted(report.dataset_samples, 'sample')}"
    kind = "iterable dataset" if report.is_iterable else "dataset"
    workers = counted(report.num_workers, "worker")
    return f"{report.loop}, {kind} {report.dataset}{size}, batches of {report.batch_size:,}, {workers}"


def _print_stages(page: Page, report: PipelineReport) -> None:
    known = [stage for stage in report.stages if stage.samples_per_s is not None]
    page.line(Text(line(page, _COLUMNS, "stage", heads(_COLUMNS)), "dim"))
    for stage in known:
        style = "yellow" if stage.name == report.smallest else ""
        page.line(Text(line(page, _COLUMNS, _name(stage), _cells(stage)), style))
    unknown: dict[tuple[str, str], list[str]] = {}
    for stage in report.stages:
        if stage.samples_per_s is None:
            unknown.setdefault((stage.because, stage.capture), []).append(stage.name)
    for i, ((because, capture), names) in enumerate(unknown.items()):
        do = f" -> {capture}" if capture else ""
        page.paragraph(Text(plain(f"{'; '.join(names)}: {because}{do}"), "dim"), label="" if i else "unknown:")


def _name(stage: Stage) -> str:
    return f"{stage.name}: {stage.work}" if stage.work and stage.work != stage.name else stage.name


def _cells(stage: Stage) -> dict[str, str]:
    rate, job = stage.samples_per_s, stage.in_job_samples_per_s
    return {
        "samples/s": "" if rate is None else number(rate),
        "error": "" if stage.spread is None else f"{100 * stage.spread:.1f} %",
        "bytes/s": "" if stage.bytes_per_s is None else spoken(stage.bytes_per_s, "bytes_per_s"),
        "in the job": "" if job is None else number(job),
        "busy": "" if stage.busy_share is None else f"{100 * stage.busy_share:.0f} %",
    }


def _print_smallest(page: Page, report: PipelineReport) -> None:
    stage = next((each for each in report.stages if each.name == report.smallest), None)
    if stage is None:
        page.paragraph("unknown: no stage of the loader was measured", label="smallest:")
        return
    job = number(stage.in_job_samples_per_s or 0)
    many = (
        f", {job} with the {stage.processes} workers of the job"
        if stage.processes > 1 and stage.name != "hand-over"
        else ""
    )
    because = f"; {report.smallest_because}" if report.smallest_because else ""
    text = f"{_name(stage)}, {number(stage.samples_per_s or 0)} samples/s{many}{because}"
    page.paragraph(Text(text, "yellow"), label="smallest:")
    shown = [each for each in stage.functions if each.share >= _LEAST_SHARE][:_FUNCTIONS]
    for each in shown:
        calls = f", which calls {each.calls}" if each.calls else ""
        where = f"{each.function} ({each.file}:{each.line}){calls}"
        page.paragraph(plain(f"{100 * each.share:.0f} % of its stack samples are in {where}"))
    if report.lock in _LOCK:
        page.paragraph(_LOCK[report.lock], label="lock:")
    elif report.lock_because:
        page.paragraph(Text(plain(f"unknown: {report.lock_because}"), "dim"), label="lock:")


def _rate(rate: LoaderRate) -> str:
    who = "in process" if not rate.workers else f"with {counted(rate.workers, 'worker')}"
    if rate.samples_per_s is None:
        return plain(f"{who}: unknown: {rate.because}")
    first = "" if rate.first_batch_s is None else f", the first batch after {rate.first_batch_s:.2g} s"
    return f"{who}: {number(rate.samples_per_s)} samples/s{first}"


def _workers(needed: WorkersNeeded) -> list[str]:
    room = "" if needed.room is None else f"the cores of the rank feed {needed.room} beside training"
    lines = [f"first: {plain(needed.first)}"] if needed.first else []
    if needed.refused:
        return [f"none: {plain(needed.refused)}"]
    if needed.least is not None and needed.most is not None and needed.step_ms is not None:
        amount = str(needed.least) if needed.least == needed.most else f"{needed.least} to {needed.most}"
        batches = f" of {needed.batches_per_step} batches" if needed.batches_per_step > 1 else ""
        text = f"a step of {needed.step_ms:,.4g} ms{batches} ({plain(needed.step_from)}) needs {amount}"
        lines.append(f"{text}; {room}{_short_of_cores(needed.room, needed.least)}" if room else text)
    else:
        lines.append(f"unknown: {plain(needed.because)}" + (f"; {room}" if room else ""))
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
        return [f"unknown: {plain(padding.because)}"]
    error = "" if padding.standard_error is None else f" (standard error {100 * padding.standard_error:.1f})"
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
