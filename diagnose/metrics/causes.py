"""Shares of the step by class and by cause of idling."""

from collections.abc import Callable

from diagnose.attribution.causes import CAUSES, GRAPH_CAPTURE, OPERATOR_GAP, UNOBSERVED, UNTRACED
from diagnose.attribution.leading import NEAR, outcomes, settled, unobserved_share
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, another_run
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_PYTHON, NO_RUNTIME
from diagnose.probes.protocol import BY_TRAINER
from diagnose.trace.vocabulary import ANNOTATIONS, DATA_WAIT, LOGGING, PYTHON, RUNTIME

CAUSES_OF: dict[str, tuple[str, ...]] = {}
"""The causes that a fact is the share of, by the fact's name."""


def _class_metric(class_: str, doc: str) -> None:
    def function(m: Measured) -> Value:
        return m.device_unseen or m.class_share(class_)

    function.__name__, function.__doc__ = f"{class_}_share", doc
    metric("share", STEP, needs_gpu=False)(function)


_class_metric("data", "The device waits for input: data loading, copies to the device, and ranks that are late for it.")
_class_metric(
    "host",
    "The device waits for the host: dispatch, synchronisation, allocation, Python, launch latency, untraced host time.",
)
_class_metric(
    "memory",
    "Kernels bound by memory bandwidth, by the roofline, else by kind: norms, elementwise, casts, optimizer, copies.",
)
_class_metric(
    "compute",
    "Kernels bound by arithmetic, by the roofline, else by kind: matrix products, convolutions, attention.",
)
_class_metric("communication", "Collectives that nothing hides.")
_class_metric(
    "unexplained", "The device idles although work is queued, or waits for a rank that is late for no known reason."
)


def _cause_metric(
    name: str,
    causes: tuple[str, ...],
    doc: str,
    *,
    needs_gpu: bool = True,
    marks: str = "",
    unmarked: Unknown | None = None,
    of_runtime: bool = False,
    watched: Callable[[Measured], bool] = lambda m: False,
) -> None:
    """Register the share of some causes.

    If the trace has no mark of them, a share of 0 becomes unknown, unless the capture `watched` for them. So does a
    share that is recognised by calls `of_runtime`, if the trace holds none.
    """
    unknown = [cause for cause in causes if cause not in CAUSES]
    assert not unknown, unknown
    CAUSES_OF[name] = causes

    def function(m: Measured) -> Value:
        if m.device_unseen:
            return m.device_unseen
        if m.timeline.trace.left_out and {"python", "gc"} & {*causes}:
            return NO_PYTHON
        if of_runtime and not m.timeline.trace.rows_of(*RUNTIME).any():
            return NO_RUNTIME
        share = m.share(*causes)
        if share or unmarked is None or watched(m) or len(m.timeline.rows_matching(marks, *ANNOTATIONS, *PYTHON)):
            return share
        return unmarked

    function.__name__, function.__doc__ = name, doc
    metric("share", STEP, needs_gpu=needs_gpu)(function)


_cause_metric(
    "data_wait_share",
    ("data-wait",),
    "The device idles while the loader fetches a batch.",
    needs_gpu=False,
    marks=DATA_WAIT,
    unmarked=Unknown(
        "the trace marks no batch fetch",
        another_run("feed batches through torch.utils.data.DataLoader, or name the fetch with diagnose.probes.range"),
    ),
)
_cause_metric(
    "host_to_device_share", ("host-to-device", "copy-HtoD"), "Copies to the device that nothing hides, and their calls."
)
_cause_metric("device_to_host_share", ("copy-DtoH",), "Copies to the host that nothing hides.")
_cause_metric(
    "sync_share",
    ("sync",),
    "The device idles because the host waited for it and so could not run ahead.",
    of_runtime=True,
)
_cause_metric(
    "allocation_share",
    ("allocation",),
    "The device idles while the host allocates or frees device memory.",
    of_runtime=True,
)
_cause_metric(
    "gc_share",
    ("gc",),
    "The device idles while Python collects garbage.",
    needs_gpu=False,
    marks="Python GC",
    unmarked=Unknown("collections of garbage were not recorded, or none ran", DIAGNOSE_RUN),
    watched=lambda m: bool(m.record.flag("profiler.record_python_gc_info")),
)
_cause_metric(
    "graph_capture_share",
    (GRAPH_CAPTURE,),
    "The device idles while the host captures a GPU graph: what is launched then is recorded and does not run.",
    needs_gpu=False,
)
_cause_metric("compile_share", ("compile",), "The device idles while code is compiled or a module is loaded.")
_cause_metric(
    "logging_share",
    ("logging",),
    "The device idles while the host logs, evaluates or saves.",
    marks=LOGGING,
    unmarked=Unknown("the trace marks no logging, evaluation or saving", DIAGNOSE_RUN),
    watched=lambda m: m.record.text("steps.source") == BY_TRAINER,
)
_cause_metric("optimizer_host_share", ("optimizer-host",), "The device idles while the host runs the optimizer's code.")
_cause_metric(
    "operator_gap_share",
    (OPERATOR_GAP,),
    "The device idles while the host calls nothing inside one operator, far longer than from one launch to the next.",
)
_cause_metric(
    "dispatch_share", ("dispatch",), "The device idles while the host dispatches operators or calls the runtime."
)
_cause_metric(
    "python_share", ("python",), "The device idles while the host is in Python between operators.", needs_gpu=False
)
_cause_metric(
    "launch_latency_share", ("launch-latency",), "The device idles between a launch and its start, up to 20 us."
)
_cause_metric("kernel_gap_share", ("kernel-gap",), "Gaps of at most 20 us between kernels that were queued in time.")
_cause_metric(
    "untraced_share",
    UNTRACED,
    "The device idles while the host is in no operator, no call and no marked range for more than a millisecond; in a "
    "step without a GPU also in an operator of unknown kind.",
    needs_gpu=False,
)
_cause_metric(
    "unobserved_share",
    UNOBSERVED,
    "The trace does not show what the device waits for: untraced host time, and the unexplained time.",
    needs_gpu=False,
)


@metric("flag", needs_gpu=False)
def unobserved_decides(m: Measured) -> Value:
    """Whether the class of the job's step depends on the time of which no trace shows what the device waits for."""
    ns = m.cause_ns if m.judged_ns is None else m.judged_ns
    total = max(sum(ns.values()), 1)
    shares = {cause: part / total for cause, part in ns.items()}
    return m.device_unseen or (unobserved_share(shares) > NEAR and settled(outcomes(shares)) is None)
