"""The first three lines of a forecast: whether it fits, how fast it is, and what to change or launch next."""

from diagnose.commands.fit.advice import Change, Sharded
from diagnose.commands.fit.calibration import Calibration
from diagnose.commands.fit.forecast import GB, Forecast
from diagnose.commands.fit.reasons import division, percent
from diagnose.formulas.mfu_words import mfu_word
from diagnose.predict.memory.job import ZERO_STAGES

_WIDE = 1.6  # slow end of a range over its fast end, from which on the reason is told
_SEEN = 0.05  # GB: what is less is shown as 0.0
_LARGE_GAIN = 10  # from here on a factor needs no decimals


def headline(made: Forecast) -> tuple[tuple[str, str], ...]:
    """The lines with their labels."""
    return (("fits", _fits(made)), ("speed", _speed(made)), ("next", next_step(made)))


def _fits(made: Forecast) -> str:
    fits = made.fits
    span = f"{fits.low_bytes / GB:.1f}-{fits.high_bytes / GB:.1f}"
    size = f"{fits.answer}: {fits.likely_bytes / GB:.1f} of {fits.capacity_bytes / GB:.1f} GB ({span})"
    others = (remedy for remedy in made.helpful_remedies if remedy.largest_micro_batch)
    best = next(others, None)
    more = f" ({best.largest_micro_batch} with {best.name.removeprefix('full activation ')})" if best else ""
    room = f"largest micro-batch {made.largest}" if made.largest else "not even one sequence fits"
    return f"{size}; {room}{more}"


def _speed(made: Forecast) -> str:
    step, span = made.step, made.step.calibration
    slow, fast = (step.tokens / seconds / step.gpus for seconds in (span.high_s, span.low_s))
    word = mfu_word(step.mfu, made.plan.model.parameters, made.plan.precision.compute_bytes < 4)
    rate = f"about {step.tokens_per_s_per_gpu:,.0f} tokens/s per GPU ({slow:,.0f}-{fast:,.0f})"
    wide = "wide, " if span.width > _WIDE else ""
    return f"{rate}, MFU {percent(step.mfu, 0)}{f': {word}' if word else ''}; {wide}{_says(span)}"


def _says(span: Calibration) -> str:
    """The first thing that the range rests on, and how many more there are."""
    more = f"; and {len(span.because) - 1} more (see rates)" if span.because[1:] else ""
    return f"not calibrated: {span.because[0]}{more}" if span.because else span.says


def next_step(made: Forecast) -> str:
    """The change that brings most, else what to launch."""
    if not made.fits.runs:
        return _room(made)
    advice = replication(made.sharded)
    if made.change and not (made.found and made.change.gain < _worth(made)):
        return _told(made, made.change)
    if made.found:
        return f"launch {division(made.plan)}, micro-batch {made.plan.micro_batch}" + (f": {advice}" if advice else "")
    return advice or "launch it: no single change that is counted here makes it faster"


def _worth(made: Forecast) -> float:
    """The gain from which a change beside a searched plan is worth more than launching it."""
    return made.step.calibration.width if made.step.calibration.width < _WIDE else _WIDE


def _told(made: Forecast, change: Change) -> str:
    freed, size = change.freed_bytes / GB, change.plan.micro_batch
    moved = f", frees {freed:.1f} GB" if freed >= _SEEN else f", takes {-freed:.1f} GB more" if freed <= -_SEEN else ""
    batch = f", micro-batch {size}" if size != made.plan.micro_batch else ""
    return f"{change.name}: about {factor(change.gain)} as fast{moved}{batch}"


def _room(made: Forecast) -> str:
    if made.helpful_remedies:
        remedy = made.helpful_remedies[0]
        return f"{remedy.name}: frees {remedy.freed_bytes / GB:.1f} GB, micro-batch {remedy.largest_micro_batch}"
    if made.largest:
        return f"--micro-batch {made.largest}"
    names, micro_batch = made.several_remedies
    return (
        f"{' and '.join(names)} together" if micro_batch else "more GPUs, a smaller model, or adapters (--lora-rank 16)"
    )


def replication(sharded: tuple[Sharded, ...]) -> str:
    """Whether ranks should hold copies or shards, with the predicted difference; "" if nothing can be sharded."""
    if len(sharded) < 2 or sharded[0].plan.sharding.zero:
        return ""
    copies, shards = sharded[0], sorted(sharded[1:], key=_rate, reverse=True)
    fits = copies.fits
    if not fits.runs:
        return f"copies (DDP) do not fit: {fits.likely_bytes / GB:.1f} of {fits.capacity_bytes / GB:.1f} GB"
    fit = "fits tightly" if fits.answer == "tight" else "fits"
    least, most = (1 - _rate(each) / _rate(copies) for each in (shards[0], shards[-1]))
    if least < 0:
        slower = percent(1 - _rate(copies) / _rate(shards[0]), 0)
        return f"DDP {fit}, and is {slower} slower than {kind(shards[0])} at this batch"
    span = percent(most, 0) if percent(least, 0) == percent(most, 0) else f"{100 * least:.0f} to {percent(most, 0)}"
    return f"replicate what fits: DDP {fit}, and shards are {span} slower at this batch"


def _rate(each: Sharded) -> float:
    return each.step.expected_tokens_per_s


def kind(each: Sharded) -> str:
    """The ZeRO stage in a word."""
    return _name(each.plan.sharding.zero)


def factor(gain: float) -> str:
    """A factor such as 1.4x."""
    return f"{gain:.0f}x" if gain >= _LARGE_GAIN else f"{gain:.2f}x"


def _name(zero: int) -> str:
    return ZERO_STAGES[zero].split(" or ")[-1]
