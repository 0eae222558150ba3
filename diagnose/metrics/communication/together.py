"""Whether the ranks are one job: what they exchange, and what ranks of one job have in common."""

from diagnose.facts import Unknown, Value
from diagnose.metrics.communication.ddp import uses_ddp
from diagnose.metrics.communication.job_size import world_size
from diagnose.metrics.communication.sharding import uses_fsdp
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.ranks.unlike import MODEL
from diagnose.trace.vocabulary import EXCHANGES


@metric("flag", needs_gpu=False)
def exchanges(m: Measured) -> Value:
    """Whether the ranks exchange anything: a collective or a send anywhere in the trace, also outside the counted
    steps, or a model that is wrapped to be trained by several ranks (DDP, FSDP, DeepSpeed). A single process has nobody
    to exchange with: this holds.
    """
    size = world_size(m)
    if isinstance(size, Unknown) or int(size) == 1:
        return True
    if uses_ddp(m) is True or uses_fsdp(m) is True or m.timeline.gpu.is_communication.any():
        return True
    if len(m.timeline.trace.collectives.row) or any(map(EXCHANGES.search, m.timeline.trace.names)):
        return True
    return m.device_unseen or False


@metric("text", needs_gpu=False)
def why_apart(m: Measured) -> Value:
    """Why the ranks are not one job if they are not, in words: they exchange nothing, or train models that differ."""
    if exchanges(m) is True:
        return f"DDP trains one model, and theirs differ ({ranks_unlike(m)})"
    return "they exchange nothing: no collective is in the trace, and no model is wrapped (DDP, FSDP, DeepSpeed)"


@metric("text", needs_gpu=False)
def ranks_unlike(m: Measured) -> Value:
    """Differences between the ranks in what those of one job have in common (model, batches, recorded steps), in
    words; "nothing known" if the records and traces show no difference.
    """
    return "; ".join(m.job.unlike.values()) or "nothing known"


@metric("flag", needs_gpu=False)
def models_unlike(m: Measured) -> Value:
    """Whether the ranks' records name models of different classes or sizes."""
    return MODEL in m.job.unlike
