"""A forecast in words: does it fit, how fast, why so, and what to launch."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.fit.forecast import GB, SHOWN, Forecast
from diagnose.commands.fit.launch import is_for_trainer, launch_file, model_kwargs, training_arguments
from diagnose.commands.fit.reasons import batch, chance, division, percent
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.errors import printable
from diagnose.report.text.page import Page, widest

_SMALLEST_PART = 0.005  # of the step or of the memory: what is less is summed up in one line
_ROUNDED = ("bf16", "fp16")
_REST = "less than 0.5 % each"
_BAR = 20
_LONG_S = 10  # a step from here on is shown in seconds
_LEAST_SHOWN = 0.05  # in the unit of the column, which has one digit
_WIDE = 60  # cells from which on parts are indented like text


def render(made: Forecast, console: Console) -> None:
    """Prints the forecast."""
    page = Page(console)
    plan = made.plan
    size = f"{plan.model.parameters / 1e9:.2f} B parameters"
    page.paragraph(f"{printable(plan.name)}, {size}, {plan.seq_len} tokens, {plan.dtype}", label="job:")
    nodes = f" on {plan.nodes} nodes" if plan.nodes > 1 else ""
    page.paragraph(f"{plan.gpus} x {plan.gpu.key}{nodes}, {division(plan)}", label="gpus:")
    page.paragraph(f"{batch(plan)}; checkpointing {plan.checkpointing}", label="batch:")
    page.gap()
    _memory(page, made)
    page.gap()
    _speed(page, made)
    if made.found:
        page.gap()
        _choice(page, made)
    page.gap()
    _launch(page, made)


def _memory(page: Page, made: Forecast) -> None:
    estimate = made.memory
    verdict = "fits" if estimate.fits else "does not fit"
    text = f"{verdict}: {estimate.total_bytes / GB:.1f} of {estimate.capacity_bytes / GB:.1f} GB on the fullest GPU"
    told = Text(text, "green" if estimate.fits else "red")
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
    others = "more GPUs, a smaller model" + (
        "" if made.plan.dtype in _ROUNDED else ", or --dtype bf16, which rounds weights"
    )
    return f"{without}: take {others}; LoRA and offloading, which need less, are not counted here"


def _speed(page: Page, made: Forecast) -> None:
    step = made.step
    room = "" if made.memory.fits else "were there room, "
    text = f"{room}{_seconds(step.step_s)} ({_seconds(step.fastest_s)} to {_seconds(step.slowest_s)}); parts in % of it"
    page.paragraph(text, label="step:")
    page.paragraph(_rate(step), label="rate:")
    unit, per_s = ("s", 1.0) if step.step_s >= _LONG_S else ("ms", 1e3)
    _shares(page, [(name, seconds * per_s) for name, seconds in step.parts.items()], unit)
    page.paragraph(_whose_rates(made), label="rates:")
    if step.stall_chance:
        text = f"{chance(step)} of such jobs are expected to stall in each step, as runs there did for unknown reasons"
        page.paragraph(f"{text}; stalled, the step takes {_seconds(step.stalled_s)}", label="risk:")


def _whose_rates(made: Forecast) -> str:
    board = made.plan.gpu.key
    if made.stack.ran_on(board):
        return f"{made.stack.source}; measured runs lay outside of the range in one of five cases"
    text = (
        f"{made.stack.source}; no run on {board} is among them: what they reached of their GPU's peaks, and the range,"
    )
    return f"{text} may not hold for it; --calibrate takes a run of yours instead"


def _rate(step: PredictedStep) -> str:
    slow, fast = (step.tokens / seconds / step.gpus for seconds in (step.slowest_s, step.fastest_s))
    of_gpu = f"{step.tokens_per_s_per_gpu:,.0f} tokens/s of a GPU ({slow:,.0f} to {fast:,.0f})"
    peak = f"{percent(step.mfu)} MFU of {step.peak_flops / 1e12:.0f} TFLOP/s as {step.mfu_as} counts"
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


def _choice(page: Page, made: Forecast) -> None:
    assert made.found is not None
    for what, because in made.reasons:
        page.paragraph(because, label=f"{what}:")
    for place, entry in enumerate(made.found.ranked[:SHOWN]):
        plan, step = entry.plan, entry.step
        loss = "" if place == 0 else f", {percent(made.found.loss(place))} slower"
        again = f", checkpointing {plan.checkpointing}" if plan.checkpointing != "none" else ""
        how = f"{division(plan)}, micro-batch {plan.micro_batch} x {plan.accumulation}{again}"
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
    if not made.memory.fits:
        page.paragraph("nothing, since the job does not fit as it is planned", label="launch:")
        return
    name, text = launch_file(made.plan, made.stack.name)
    if is_for_trainer(made.stack.name):
        page.paragraph(_call("TrainingArguments", training_arguments(made.plan)), label="settings:")
        page.paragraph(_call("from_pretrained", model_kwargs(made.plan)))
    page.paragraph(name, label="launch:")
    for line in text.splitlines():
        page.line(Text(" " * 12 + line))


def _call(name: str, settings: object) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in dict(settings).items())})"  # type: ignore[call-overload]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"
