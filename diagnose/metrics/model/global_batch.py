"""The samples and tokens of an optimizer step over all ranks, and the batch beyond which more gains little."""

from diagnose.facts import Unknown, Value, analysis_option, capture_setting, nothing_helps
from diagnose.metrics.communication.ddp import uses_ddp
from diagnose.metrics.communication.job_size import world_size
from diagnose.metrics.communication.sharding import uses_fsdp
from diagnose.metrics.kernels.optimizer_forms import optimizer_name
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.tokens import tokens_per_step
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import accumulation_steps, micro_batch_size

NOT_STATED = Unknown(
    "the critical batch is not stated: measure the gradient noise scale (McCandlish et al. 2018)",
    analysis_option("--critical-batch"),
)
NO_RULE = Unknown(
    "there is no published rule for how its learning rate follows the batch",
    nothing_helps("runs at both batches tell", capture_setting("diagnose run, where the optimizer was not seen")),
)
UNDIVIDED = Unknown(
    "how the ranks divide the batch is not recorded",
    nothing_helps("ranks of tensor or pipeline parallelism share a batch", capture_setting("diagnose run")),
)
_SQUARE_ROOT = ("adam", "rmsprop")
_NO_RULE = ("adamax",)


@metric("text", needs_gpu=False)
def learning_rate_rule(m: Measured) -> Value:
    """The scaling of the learning rate with the global batch: "linear" for SGD (Goyal et al. 2017), "square root" for
    Adam and RMSprop (Malladi et al. 2022); unknown for other optimizers.
    """
    name = m.once(optimizer_name)
    if isinstance(name, Unknown):
        return name
    lower = str(name).lower()
    if any(kind in lower for kind in _SQUARE_ROOT) and not any(kind in lower for kind in _NO_RULE):
        return "square root"
    return "linear" if "sgd" in lower else NO_RULE


def _data_ranks(m: Measured) -> float | Unknown:
    """Ranks with batches of their own: all of DDP, FSDP and DeepSpeed, or the one there is."""
    ranks = world_size(m)
    if isinstance(ranks, Unknown):
        return 1.0 if m.job.ranks == 1 else ranks
    replicates = uses_ddp(m) is True or uses_fsdp(m) is True or m.record.get("zero") is not None
    return float(ranks) if int(ranks) == 1 or replicates else UNDIVIDED


@metric("count", needs_gpu=False)
def global_batch_samples(m: Measured) -> Value:
    """Samples of one optimizer step over all ranks that have batches of their own."""
    ranks, batch, steps = _data_ranks(m), micro_batch_size(m), accumulation_steps(m)
    for value in (ranks, batch, steps):
        if isinstance(value, Unknown):
            return value
    return float(ranks) * float(batch) * float(steps)  # type: ignore[arg-type]


@metric("count", needs_gpu=False)
def global_batch_tokens(m: Measured) -> Value:
    """Tokens of one optimizer step over all ranks that have batches of their own, padding included."""
    ranks, tokens = _data_ranks(m), tokens_per_step(m)
    if isinstance(ranks, Unknown) or isinstance(tokens, Unknown):
        return ranks if isinstance(ranks, Unknown) else tokens
    return ranks * float(tokens)


@metric("factor", needs_gpu=False)
def critical_batch_factor(m: Measured) -> Value:
    """The global batch over the critical one, as stated; at 1 a run takes twice the fewest samples that suffice."""
    critical = m.settings.critical_batch
    if critical is None:
        return NOT_STATED
    now = global_batch_tokens(m) if critical.unit == "tokens" else global_batch_samples(m)
    return now if isinstance(now, Unknown) else float(now) / critical.size
