"""Work on the input that holds the training loop, and waits that come in bursts."""

import re
import sys
from collections.abc import Callable, Sequence

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints
from diagnose.attribution.causes import IDLE
from diagnose.facts import STEP, Unknown, Value, capture_setting, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import MORE_STEPS, NO_PYTHON
from diagnose.trace.vocabulary import ANNOTATIONS, PYTHON

TEXT_WORK = re.compile(r"tokeni[sz](e|ation)|batch_encode|encode_(plus|batch)|collat", re.IGNORECASE)
_MODULES = ("nn.Module", "torch/nn/", "<built-in method run_backward")
_PYTHON_FILE = re.compile(r"(?:.*(?:site-packages|dist-packages|lib\d*/python[\d.]+)/)?(?P<path>.+)\.py\(\d+\): ")
_READS_CODE = sys.stdlib_module_names | {  # packages whose tokens are those of code, markup, versions or hashes
    "IPython", "dask", "docutils", "jinja2", "lark", "mako", "markdown", "mypy", "numba", "packaging", "pandas", "pip",
    "pkg_resources", "pygments", "pyparsing", "setuptools", "sqlparse", "sympy", "tomli", "torch", "triton", "yaml",
}  # fmt: skip
_BATCHES = "torch/utils/data/"
_IMPORTS = "<frozen importlib"
_LEAST_STEPS = 3
STACKS = capture_setting("with_stack=True in a run of its own")
STACKS_BY_HAND = capture_setting(
    "torch.profiler and with_stack=True in a run of its own: diagnose run samples stacks and records no calls"
)


@metric("share", STEP, needs_gpu=False)
def text_work_share(m: Measured) -> Value:
    """The device idles, or without a GPU the host is busy, while the training process tokenises or collates."""
    trace = m.timeline.trace
    if m.device_unseen:
        return m.device_unseen
    if trace.left_out:
        return NO_PYTHON
    if not trace.rows_of(*PYTHON).any() and not any(works_on_text(n) for n in trace.names):
        return Unknown("the trace names no Python functions", STACKS_BY_HAND if m.record else STACKS)
    work = iv.subtract(_when(m, works_on_text), _when(m, lambda name: name.startswith(_IMPORTS)))
    return m.pieces_share(iv.intersect(work, m.attribution.pieces(*IDLE)))


def works_on_text(name: str) -> bool:
    """Whether a function or range of this name tokenises text or collates samples.

    The tokens of Python's own modules, and of packages that read code, are no text: what remains are libraries of
    tokenizers and the user's functions.
    """
    if not TEXT_WORK.search(name) or name.startswith(_MODULES):
        return False
    file = _PYTHON_FILE.match(name.replace("\\", "/"))
    return file is None or file["path"].startswith(_BATCHES) or file["path"].split("/")[0] not in _READS_CODE


def _when(m: Measured, wanted: Callable[[str], bool]) -> iv.Intervals:
    """The instants at which a function or range is open whose name is wanted."""
    trace = m.timeline.trace
    rows = trace.named_in(wanted, *ANNOTATIONS, *PYTHON)
    return iv.intervals(trace.ts[rows], trace.ends(rows))


@metric("factor", needs_gpu=False)
def data_wait_burst_factor(m: Measured) -> Value:
    """The longest wait for data over the mean one, of as many batches as there are workers; recorded, else by step.

    Workers that began together are late together: each of a steady shortage, once in so many batches.
    """
    windows, workers = (
        m.timeline.windows,
        m.record.number("loading.workers") or m.record.number("dataloader.num_workers"),
    )
    recorded = [wait for wait in m.record.get("loading.wait_ns") or () if wait is not None]
    by_step = iv.coverage(m.attribution.pieces("data-wait"), windows[:, 0], windows[:, 1])
    waits = _by_turn(recorded, workers) if recorded else _by_turn(by_step, workers)
    if len(waits) < _LEAST_STEPS:
        return Unknown("too few steps are counted to tell bursts", MORE_STEPS)
    if not waits.sum():
        return Unknown("no step waits for data", nothing_helps("the batches are there in time"))
    return float(waits.max() / waits.mean())


def _by_turn(waits: Sequence[float] | Ints, workers: float | None) -> Floats:
    """Sums of as many waits in a row as there are workers."""
    turn = max(int(workers or 1), 1)
    whole = np.asarray(waits, float)[: len(waits) // turn * turn]
    return whole.reshape(-1, turn).sum(axis=1)
