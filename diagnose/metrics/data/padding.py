"""Padding of the batches that the capture saw: how much of it, in how many, and where it is made.

Padding is static if rows bring it along from the dataset, or if all batches have one length that no sample needs. It is
dynamic if a collate function pads rows of several lengths to the longest of each batch.
"""

from typing import Literal

import msgspec
import numpy as np

from diagnose.facts import Unknown, Value, another_run, nothing_helps, spoken
from diagnose.formulas.statistics import generator
from diagnose.metrics.data.batching import PERCENTILES, grouped_by_length, sorted_together
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import accumulation_steps
from diagnose.metrics.run.training_loop import loader_made_by, training_loop

Kind = Literal["static", "dynamic"]
Place = Literal["dataset", "collate function"]
LEAST_BATCHES = 4
LEAST_BEYOND = 8  # tokens of a row; lengths are rounded up to multiples of that many
_MOST = 0.5  # of the padding: what makes more of it than that is what to change
_DRAWS = 60
_MANY = 1 << 20  # samples of a dataset of which a grouping sorts as many together as it can
NOT_PADDED = Unknown("no batch is padded", nothing_helps("there is no padding"))
NO_MASK = Unknown("its batches have no attention_mask in host memory", nothing_helps("nothing marks padding"))
NOT_STATIC = Unknown("padding is not static", nothing_helps("batches are padded to their longest"))
FEW_BATCHES = Unknown("too few batches were seen to tell how they are padded", another_run("capture a later step"))
ONE_LENGTH = Unknown(
    "all batches have one length, which one sample of each has or nearly has, and their rows were not seen before "
    "they were collated",
    another_run("capture with loader workers that are forked, or without workers"),
)


class SeenPadding(msgspec.Struct, frozen=True, kw_only=True):
    """The padding of some batches.

    Attributes:
        batches: their number.
        least_length, most_length: tokens of a row of a batch.
        most_beyond: columns of a batch behind its longest sample, in the batch that has most.
        in_rows, by_collating: tokens of padding that rows had before they were collated, and that were added then; None
            if that was not seen.
    """

    batches: int
    least_length: int
    most_length: int
    most_beyond: float
    in_rows: int | None = None
    by_collating: int | None = None

    @property
    def beyond_one_length(self) -> bool:
        """Whether batches are padded to one length, which no sample of one of them needs."""
        return self.least_length == self.most_length and self.most_beyond >= LEAST_BEYOND


def kind_of(seen: SeenPadding) -> Kind | Unknown:
    """The kind of the padding of batches that have some: by their rows, else by their lengths."""
    place = place_of(seen)
    if isinstance(place, Unknown):
        return place
    return "dynamic" if place is None else "static"


def place_of(seen: SeenPadding) -> Place | Unknown | None:
    """Where static padding is made; None if it is dynamic."""
    if seen.in_rows and seen.in_rows > _MOST * (seen.in_rows + (seen.by_collating or 0)):
        return "dataset"
    if seen.in_rows is None and seen.batches < LEAST_BATCHES:
        return FEW_BATCHES
    if seen.beyond_one_length:
        return "collate function"
    return ONE_LENGTH if seen.in_rows is None and seen.least_length == seen.most_length else None


@metric("flag", needs_gpu=False)
def groups_by_length(m: Measured) -> Value:
    """Whether the trainer is asked to batch samples of like length, and makes the loader itself."""
    asked = m.record.text("training_arguments.train_sampling_strategy") == "group_by_length"
    older = m.record.flag("training_arguments.group_by_length")
    if m.record.get("training_arguments") is None:
        return m.recorded(None)
    return (asked or older is True) and m.once(loader_made_by) == m.once(training_loop)


@metric("share", "tokens of the batches seen", needs_gpu=False)
def padding_share(m: Measured) -> Value:
    """Tokens that are padding, from the beginning of the loop to the end of the window."""
    share = m.record.number("batch.padding_share")
    return NO_MASK if share is None and m.record.get("batch") else m.recorded(share)


@metric("count", needs_gpu=False)
def useful_tokens_per_step(m: Measured) -> Value:
    """Tokens of one optimizer step on one rank that are no padding: the mean over all batches that were seen, which
    differ where samples are grouped by length.
    """
    batches, tokens, padded = (
        m.record.number(f"batch.padding.{key}") for key in ("batches", "tokens", "padded_tokens")
    )
    steps = accumulation_steps(m)
    if not batches or tokens is None or padded is None or isinstance(steps, Unknown):
        return m.unrecorded
    return (tokens - padded) / batches * float(steps)


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
    """The padding of batches: "static" if rows are padded in the dataset, or batches to a length that no sample needs;
    else "dynamic", to the longest sample of each batch.
    """
    seen = _seen(m)
    return seen if isinstance(seen, Unknown) else kind_of(seen)


@metric("text", needs_gpu=False)
def static_padding_place(m: Measured) -> Value:
    """The part that pads all rows or batches alike: "dataset" or "collate function"."""
    seen = _seen(m)
    place = seen if isinstance(seen, Unknown) else place_of(seen)
    return place or NOT_STATIC


@metric("text", needs_gpu=False)
def rows_unpadded_by(m: Measured) -> Value:
    """The means to have rows without padding where the dataset pads them: their "attention_mask", else the "tokenizer"
    that makes them.
    """
    place = static_padding_place(m)
    if isinstance(place, Unknown):
        return place
    if place != "dataset":
        return Unknown("rows are not padded", nothing_helps("the collate function pads them"))
    samples, masked = m.record.number("batch.rows.samples"), m.record.number("batch.rows.with_mask")
    return "attention_mask" if samples and masked == samples else "tokenizer"


@metric("text", needs_gpu=False)
def collator_to_give(m: Measured) -> Value:
    """The padding, "longest", of the data collator to give to a job whose own pads to one length or not at all."""
    place, collates = static_padding_place(m), m.record.text("batch.rows.collates")
    if isinstance(place, Unknown):
        return place
    if place == "collate function" or collates == "fails":
        return "longest"
    return Unknown("the job's collate function pads, or may", nothing_helps("it can stay"))


def _seen(m: Measured) -> SeenPadding | Unknown:
    """The padding that the record has; Unknown if it has none."""
    keys = ("batches", "least_length", "most_length", "tokens", "beyond_longest_tokens")
    batches, least, most, tokens, beyond = (m.record.number(f"batch.padding.{key}") for key in keys)
    if batches is None or least is None or most is None or not tokens or beyond is None:
        return m.unrecorded
    if not padding_share(m):
        return NOT_PADDED
    columns = m.record.number("batch.padding.most_beyond_longest")
    in_rows, by_collating = (m.record.number(f"batch.rows.{key}_tokens") for key in ("padded", "collated"))
    return SeenPadding(
        batches=int(batches),
        least_length=int(least),
        most_length=int(most),
        most_beyond=beyond / tokens * most if columns is None else columns,
        in_rows=None if in_rows is None else int(in_rows),
        by_collating=None if by_collating is None else int(by_collating),
    )


@metric("share", "tokens of the batches seen", needs_gpu=False)
def grouping_cured_share(m: Measured) -> Value:
    """Tokens that batches of samples of similar length would save, padded to their longest: at least, by the lengths
    of the samples that were seen.
    """
    return _cured_by_grouping(m, PERCENTILES[-1], None)


def _cured_by_grouping(m: Measured, percentile: int, unseen: int | None) -> float | Unknown:
    """The tokens saved by this percentile of what grouped samples need.

    Args:
        m: the rank.
        percentile: of the draws.
        unseen: samples of the dataset where the batches of a pass are not known; None for those that were seen.
    """
    counts, tokens = m.record.get("batch.padding.samples_by_tokens"), m.record.number("batch.padding.tokens")
    batches = m.record.number("batch.padding.batches")
    if not counts or not tokens or not batches:
        return m.unrecorded
    lengths = np.repeat(*np.array(counts, np.int64).T)
    size, of_pass = max(round(len(lengths) / batches), 1), m.record.number("loading.passes.batches")
    samples = max(round(of_pass * size), len(lengths)) if of_pass else unseen or len(lengths)
    after = grouped_by_length(size, sorted_together(samples, size))
    draw = generator()
    per_sample = np.concatenate([after(draw, draw.choice(lengths, size=len(lengths))) for _ in range(_DRAWS)])
    needed = float(np.percentile(per_sample, percentile))
    return min(max(1 - needed * len(lengths) / tokens, 0.0), 1.0)


@metric("share", "tokens of the batches seen", needs_gpu=False)
def least_padding_cured_share(m: Measured) -> Value:
    """Tokens saved in the worst case, by padding to the longest of a batch and by grouping; unknown if the kind of the
    padding is, since grouping does nothing for rows that are all padded to one length.
    """
    share, kind = padding_share(m), padding_kind(m)
    if isinstance(share, Unknown) or isinstance(kind, Unknown):
        return share if isinstance(share, Unknown) else kind
    grouped = grouping_cured_share(m)
    if not isinstance(grouped, Unknown):
        return min(float(grouped), float(share))
    return padding_beyond_longest_share(m) if kind == "static" else 0.75 * float(share)


@metric("share", "tokens of the batches seen", needs_gpu=False)
def most_padding_cured_share(m: Measured) -> Value:
    """Tokens saved in the best case, by padding to the longest of a batch and by grouping the samples of a dataset that
    may be larger than what was seen; all of the padding if the lengths of the samples are not known.
    """
    share, grouped = padding_share(m), _cured_by_grouping(m, PERCENTILES[0], _MANY)
    return share if isinstance(share, Unknown) or isinstance(grouped, Unknown) else min(grouped, float(share))
