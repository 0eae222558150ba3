"""A forecast in words: does it fit, how fast, why so, and what to launch."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.fit.bill import print_bill
from diagnose.commands.fit.features import told
from diagnose.commands.fit.forecast import GB, SHOWN, Forecast
from diagnose.commands.fit.headline import factor, headline, kind, replication
from diagnose.commands.fit.launch import (
    is_for_trainer,
    launch_file,
    lora_config,
    model_kwargs,
    quantization_config,
    training_arguments,
)
from diagnose.commands.fit.reasons import batch, chance, division, percent, switches
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.commands.fit.textbook import print_textbook, textbook_of
from diagnose.errors import printable
from diagnose.report.text.page import Page, widest

_SMALLEST_PART = 0.005  # of the step or of the memory: what is less is summed up in one line
_ROUNDED = ("bf16", "fp16")
_REST = "less than 0.5 % each"
_BAR = 20
_LONG_S = 10  # a step from here on is shown in seconds
_LEAST_SHOWN = 0.05  # in the unit of the column, which has one digit
_FITS = {"yes": "fits", "tight": "fits tightly", "no": "does not fit"}
_WIDE = 60  # cells from which on parts are indented like text


def render(made: Forecast, console: Console) -> None:
    """Prints the forecast."""
    page = Page(console)
    for name, says in headline(made):
        page.paragraph(says, label=name)
    if made.counted:
        page.paragraph(made.counted.says, label="gpus")
    page.gap()
    plan = made.plan
    size = f"{plan.model.parameters / 1e9:.2f} B parameters"
    page.paragraph(
        f"{printable(plan.name)}, {size}, {plan.seq_len} tokens, {', '.join([plan.dtype, *told(plan)])}", label="job:"
    )
    nodes = f" on {plan.nodes} nodes" if plan.nodes > 1 else ""
    page.paragraph(f"{plan.gpus} x {plan.gpu.key}{nodes}, {division(plan)}", label="gpus:")
    page.paragraph(f"{batch(plan)}; checkpointing {plan.checkpointing}", label="batch:")
    if made.fixed or made.found:
        page.paragraph(_searched(made), label="stated:")
    if gain := made.tf32_gain:
        page.paragraph(
            f"TF32 is off in fp32, so products run without tensor cores; --dtype tf32 (tf32=True) would be"
            f" {factor(gain)} as fast",
            label="precision:",
        )
    page.gap()
    _memory(page, made)
    page.gap()
    _speed(page, made)
    page.gap()
    print_textbook(page, textbook_of(made.step, made.stack, made.remedies))
    if made.sharded:
        page.gap()
        _sharded(page, made)
    if made.found:
        page.gap()
        _choice(page, made)
    if made.question:
        page.gap()
        bills = [(division(bill.step.plan), bill) for bill in made.bills]
        print_bill(page, bills, made.counted)
    page.gap()
    _launch(page, made)


def _memory(page: Page, made: Forecast) -> None:
    estimate = made.memory
    verdict = _FITS[made.fits.answer]
    text = f"{verdict}: {estimate.total_bytes / GB:.1f} of {estimate.capacity_bytes / GB:.1f} GB on the fullest GPU"
    told = Text(text, {"yes": "green", "tight": "yellow", "no": "red"}[made.fits.answer])
    page.paragraph(Text.assemble(told, "; parts in % of what the job takes"), label="memory:")
    _shares(page, [(part.name, part.bytes / GB) for part in estimate.parts], "GB")
    room = f"largest micro-batch that fits: {made.largest}" if made.largest else "not even one sequence fits"
    page.paragraph(room, label="room:")
    for remedy in made.helpful_remedies[:SHOWN]:
        page.paragraph(f"{remedy.largest_micro_batch} with {remedy.name}, which frees {remedy.freed_bytes / GB:.1f} GB")
    if not made.largest and not made.helpful_remedies:
        page.paragraph(_several(made))


def _several(made: Forecast) -> str:
    """Sentence on changes that make room together if none does one by one."""
    names, micro_batch = made.several_remedies
    changes = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    if micro_batch:
        return f"{micro_batch} with {changes} together"
    without = f"nor with {changes}" if names else "and no change frees anything"
    half = made.plan.gpu.matrix_dtype
    rounded = "" if made.plan.dtype in _ROUNDED else f", or --dtype {half}, which rounds weights"
    others = f"more GPUs, a smaller model{rounded}"
    return f"{without}: take {others}, or --lora-rank; offloading is not counted here"


def _speed(page: Page, made: Forecast) -> None:
    step = made.step
    room = "" if made.fits.runs else "were there room, "
    span = f"{_seconds(made.step.calibration.low_s)} to {_seconds(made.step.calibration.high_s)}"
    page.paragraph(f"{room}{_seconds(step.step_s)} ({span}); parts in % of it", label="step:")
    page.paragraph(_rate(made), label="rate:")
    unit, per_s = ("s", 1.0) if step.step_s >= _LONG_S else ("ms", 1e3)
    _shares(page, [(name, seconds * per_s) for name, seconds in step.parts.items()], unit)
    page.paragraph(_whose_rates(made), label="rates:")
    if step.stall_chance:
        text = f"{chance(step)} of such jobs are expected to stall in each step, as runs there did for unknown reasons"
        page.paragraph(f"{text}; stalled, the step takes {_seconds(step.stalled_s)}", label="risk:")


def _whose_rates(made: Forecast) -> str:
    return f"{made.stack.source}; {made.step.calibration.says}; --calibrate takes a run of yours instead"


def _searched(made: Forecast) -> str:
    """Words for what the search kept and what it varied."""
    kept = ", ".join(made.fixed) or "nothing of the batch and the switches"
    return kept + (f"; varied: {', '.join(made.found.varied)}" if made.found and made.found.varied else "")


def _rate(made: Forecast) -> str:
    step = made.step
    of_gpu = f"{step.tokens_per_s_per_gpu:,.0f} tokens/s of a GPU"
    peak = f"{percent(step.mfu)} MFU of {step.peak_flops / 1e12:.0f} TFLOP/s as {step.mfu_as} counts"
    peak += ", 4 FLOPs for each frozen weight" if made.plan.adapters else ""
    return f"{of_gpu}, {step.tokens_per_s:,.0f} in all, {peak}"


def _shares(page: Page, parts: list[tuple[str, float]], unit: str) -> None:
    total = sum(size for _, size in parts)
    shown = [(name, size) for name, size in parts if size >= _SMALLEST_PART * total]
    rest = total - sum(size for _, size in shown)
    names = [name for name, _ in shown] + [_REST] * (rest >= _LEAST_SHOWN)
    indent = 12 if page.width >= _WIDE else 2
    width = widest(names, page.width - indent - 23)
    for name, size in sorted(shown, key=lambda part: -part[1]):
        share = size / total
        bar = page.bar(share, _BAR, "cyan") if page.width >= width + _BAR + 35 else Text()
        cells = f" {size:9,.1f} {unit} {percent(share):>7}  "
        page.line(Text.assemble(" " * indent, page.fitted(name, width), cells, bar))
    if rest >= _LEAST_SHOWN:
        page.line(Text(f"{' ' * indent}{page.fitted(_REST, width)} {rest:9,.1f} {unit}", "dim"))


def _sharded(page: Page, made: Forecast) -> None:
    """The same batch under each ZeRO stage."""
    for place, each in enumerate(made.sharded):
        rate, gb = each.step.expected_tokens_per_s / each.step.gpus, each.fits.likely_bytes / GB
        text = f"{kind(each)}: {rate:,.0f} tokens/s of a GPU, {gb:.1f} GB: {_FITS[each.fits.answer]}"
        page.paragraph(text, label="shards:" if place == 0 else "")
    page.paragraph(replication(made.sharded))


def _choice(page: Page, made: Forecast) -> None:
    assert made.found is not None
    for what, because in made.reasons:
        page.paragraph(because, label=f"{what}:")
    for place, entry in enumerate(made.found.ranked[:SHOWN]):
        plan, step = entry.plan, entry.step
        loss = "" if place == 0 else f", {percent(made.found.loss(place))} slower"
        how = ", ".join([division(plan), f"micro-batch {plan.micro_batch} x {plan.accumulation}", *switches(plan)])
        text = f"{place + 1}. {how}: {_to_expect(step)}{loss}"
        page.paragraph(text, label="best:" if place == 0 else "")
    if made.elsewhere:
        rate = made.elsewhere.step.tokens_per_s_per_gpu
        text = f"nanotron, {division(made.elsewhere.plan)}: {rate:,.0f} tokens/s of a GPU at its own rates"
        page.paragraph(f"{text} (--stack nanotron)", label="else:")


def _to_expect(step: PredictedStep) -> str:
    """Text of the throughput that the ranking uses: a mean over runs of which some stall."""
    text = f"{step.expected_tokens_per_s / step.gpus:,.0f} tokens/s of a GPU"
    if not step.stall_chance:
        return text
    steady = step.tokens / step.steady_s / step.gpus
    return f"{text} ({steady:,.0f}, but {chance(step)} of such jobs stall)"


def _launch(page: Page, made: Forecast) -> None:
    if not made.fits.runs:
        page.paragraph("nothing, since the job does not fit as it is planned", label="launch:")
        return
    name, text = launch_file(made.plan, made.stack.name)
    if is_for_trainer(made.stack.name):
        page.paragraph(_call("TrainingArguments", training_arguments(made.plan)), label="settings:")
        page.paragraph(_call("from_pretrained", model_kwargs(made.plan)))
        for kind, settings in (("BitsAndBytesConfig", quantization_config), ("LoraConfig", lora_config)):
            if stated := settings(made.plan):
                page.paragraph(_call(kind, stated))
    page.paragraph(name, label="launch:")
    for line in text.splitlines():
        page.line(Text(" " * 12 + line))


def _call(name: str, settings: object) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in dict(settings).items())})"  # type: ignore[call-overload]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"
