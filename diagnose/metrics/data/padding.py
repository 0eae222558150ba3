"""Padding of the batches that the capture saw: how much of it, in how many, and whether batches are padded alike."""

from diagnose.facts import Unknown, Value, another_run, nothing_helps, spoken
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

LEAST_BATCHES = 4
LEAST_BEYOND = 8  # tokens of a row; lengths are rounded up to multiples of that many
FEW_BATCHES = Unknown("too few batches were seen to tell how they are padded", another_run("capture a later step"))


@metric("share", "tokens of the batches seen", needs_gpu=False)
def padding_share(m: Measured) -> Value:
    """Tokens that are padding, from the beginning of the loop to the end of the window."""
    return m.recorded(m.record.number("batch.padding_share"))


@metric("text", needs_gpu=False)
def padding_sample(m: Measured) -> Value:
    """The batches that the share of padding is of, and how far they lie apart."""
    batches, least, most = (m.record.number(f"batch.padding.{key}") for key in ("batches", "least_share", "most_share"))
    if batches is None or least is None or most is None:
        return m.unrecorded
    error = padding_error_share(m)
    sure = "" if isinstance(error, Unknown) else f", standard error {spoken(error, 'share')}"
    return f"{spoken(batches, 'count')} batches seen, {spoken(least, 'share')} to {spoken(most, 'share')} of each{sure}"


@metric("share", "tokens of the batches seen", needs_gpu=False)
def padding_error_share(m: Measured) -> Value:
    """Standard error of the share of padding, by how far the batches that were seen lie apart."""
    return m.recorded(m.record.number("batch.padding.share_error"))


@metric("share", "tokens of the batches seen", needs_gpu=False)
def padding_beyond_longest_share(m: Measured) -> Value:
    """Tokens behind the longest sample of their batch, which padding to that sample does not make."""
    tokens, beyond = m.record.number("batch.padding.tokens"), m.record.number("batch.padding.beyond_longest_tokens")
    return m.unrecorded if not tokens or beyond is None else min(beyond / tokens, 1.0)


@metric("text", needs_gpu=False)
def padding_kind(m: Measured) -> Value:
    """The padding of batches: "static" to one length that all have and no sample needs, else "dynamic" to the longest
    sample of each batch.
    """
    batches = m.record.number("batch.padding.batches")
    least, most = (m.record.number(f"batch.padding.{key}_length") for key in ("least", "most"))
    beyond = padding_beyond_longest_share(m)
    if batches is None or least is None or most is None or isinstance(beyond, Unknown):
        return m.unrecorded
    if not padding_share(m):
        return Unknown("no batch is padded", nothing_helps("there is no padding"))
    if batches < LEAST_BATCHES:
        return FEW_BATCHES
    return "static" if least == most and float(beyond) * most >= LEAST_BEYOND else "dynamic"


@metric("share", "tokens of the batches seen", needs_gpu=False)
def least_padding_cured_share(m: Measured) -> Value:
    """Tokens saved in the worst case: all padding beyond the longest sample if all batches have one length; three
    quarters of the padding by grouping; half of it if its kind is not known.
    """
    share, kind = padding_share(m), padding_kind(m)
    if isinstance(share, Unknown):
        return share
    if kind == "static":
        return padding_beyond_longest_share(m)
    return (0.75 if kind == "dynamic" else 0.5) * float(share)
