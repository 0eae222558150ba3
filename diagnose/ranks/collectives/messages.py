"""The collective kernels of one rank: what they carry, and which of them reduce gradients."""

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask, Texts
from diagnose.ranks.collectives.fields import fields_of
from diagnose.ranks.collectives.kinds import itemsize, plain_dtype
from diagnose.timeline import Timeline
from diagnose.timeline.kernel_names import collective_kind, element_type
from diagnose.trace.vocabulary import BACKWARD

LEAST_BYTES = 1 << 20  # a smaller reduction carries a metric, a norm or the first bucket
NOT_RECORDED = -1
REDUCTIONS = ("allreduce", "reducescatter")


class Messages(msgspec.Struct, frozen=True):
    """Collective kernels that start in the counted steps, in order of start; columns of equal length.

    Attributes:
        activity: row of `timeline.gpu`.
        kind: "allreduce", "allgather", "reducescatter", "broadcast" and so on.
        dtype: "float", "bfloat16" and so on; "" if neither the kernel's name nor its fields show it.
        elements: elements of the whole message, the full buffer of a sharded collective; NOT_RECORDED without its
            fields.
        bytes: bytes of the same; NOT_RECORDED without its fields.
        ranks: number of ranks in its group; NOT_RECORDED without its fields.
        start: nanoseconds, like `end` and `launched`.
        in_backward: whether it was launched while the backward pass ran.
    """

    activity: Ints
    kind: Texts
    dtype: Texts
    elements: Ints
    bytes: Ints
    ranks: Ints
    start: Ints
    end: Ints
    launched: Ints
    in_backward: Mask

    def when(self, which: Mask) -> iv.Intervals:
        """The instants at which any of the collectives in the mask runs."""
        return iv.intervals(self.start[which], self.end[which])

    @property
    def gathers(self) -> Mask:
        """Mask of the all-gathers."""
        return np.asarray(self.kind == "allgather")

    @property
    def reduces_gradients(self) -> Mask:
        """Mask of the reductions launched in the backward pass that are not known to be small or of whole numbers.

        If the trace does not show the backward pass, the mask covers all such reductions.
        """
        large = (self.bytes >= LEAST_BYTES) | (self.bytes == NOT_RECORDED)
        found: Mask = np.isin(self.kind, REDUCTIONS) & large & ~np.isin(self.dtype, ("int", "long", "byte"))
        return found & self.in_backward if self.in_backward.any() else found


def messages_of(timeline: Timeline, inside: Mask) -> Messages:
    """The collectives among the GPU activities in the mask `inside`."""
    gpu, table = timeline.gpu, timeline.trace.collectives
    chosen = np.flatnonzero(gpu.is_communication & inside)
    at = fields_of(timeline, chosen).field.tolist()
    names = [timeline.trace.names[n] for n in timeline.trace.name[gpu.row[chosen]].tolist()]
    dtype = [plain_dtype(table.dtype[i]) if i >= 0 else element_type(name) for i, name in zip(at, names, strict=True)]
    kinds = [collective_kind(table.name[i] if i >= 0 else name) for i, name in zip(at, names, strict=True)]
    counts = [max(int(table.elements_in[i]), int(table.elements_out[i])) if i >= 0 else NOT_RECORDED for i in at]
    elements, sizes = np.array(counts, np.int64), np.array([itemsize(d) for d in dtype], np.int64)
    known = (elements > 0) & (sizes > 0)
    return Messages(
        activity=chosen,
        kind=np.array(kinds, np.str_),
        dtype=np.array(dtype, np.str_),
        elements=np.where(known, elements, NOT_RECORDED),
        bytes=np.where(known, elements * sizes, NOT_RECORDED),
        ranks=np.array([int(table.group_size[i]) if i >= 0 else NOT_RECORDED for i in at], np.int64),
        start=gpu.start[chosen],
        end=gpu.end[chosen],
        launched=gpu.launch_start[chosen],
        in_backward=timeline.launched_under(BACKWARD)[chosen],
    )
