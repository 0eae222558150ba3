"""Builder traces and rules written in the test, as predictions."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from analysed import GEMM, SOFTMAX, Built, timeline
from kineto import Trace

from diagnose.attribution.attribution import attribute
from diagnose.metrics import Measured, measure, units
from diagnose.metrics.settings import Settings
from diagnose.predict.whatif import Predictor
from diagnose.ranks import JobView
from diagnose.rule import Rule, load_rule
from diagnose.trace.record import decoded

ALWAYS = """
title = "A fault"
class = "host"
maturity = "sandbox"
info = "step_count > 0"
says = "It is there."
do = "Cure it."
unless = "It is not."
see = []
{keys}

[whatif]
{whatif}
{tables}
[[example]]
name = "fires"
facts = {{ step_count = 3 }}
expect = "info"

[[example]]
name = "does not"
facts = {{ step_count = 0 }}
expect = "quiet"
"""
SOURCED = 'assumes = "the factors of the test"\nsource = "the test"\n'


def written(folder: Path, name: str, whatif: str, keys: str = "", sets: str = "") -> Path:
    """The file of a rule that always fires; `sets` are the keys that its patch sets."""
    patch = f'[patch]\ntarget = "training_arguments"\n[patch.set]\n{sets}\n' if sets else ""
    text = ALWAYS.format(keys=keys, whatif=whatif if "removes =" in whatif else whatif + "\n" + SOURCED, tables=patch)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def rule(whatif: str, name: str = "a-fault", keys: str = "", sets: str = "") -> Rule:
    """A rule that always fires, from the text of its `[whatif]`."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), name, whatif, keys, sets)
        return load_rule(path, units())


def predictor(built: Built, fired: Sequence[Rule] = (), record: dict[str, object] | None = None) -> Predictor:
    line = timeline(built)
    measured = Measured(line, attribute(line), JobView(), Settings(), decoded(record or {}))
    return Predictor(measured, measure(measured), fired)


def device_bound(count: int = 5) -> Trace:
    """Steps of 10 ms on the device: 4 ms of unfused attention, 5 ms of products, 1 ms of the optimizer."""
    return steps(device_bound_step, count)


def device_bound_step(job: Trace) -> None:
    for _ in range(4):
        job.op("aten::bmm", None, GEMM, 1)
        job.op("aten::_softmax", [[4, 8, 512, 512]], SOFTMAX, 998)
        job.op("aten::bmm", None, GEMM, 1)
        job.op("aten::mm", [[4096, 512], [512, 512]], GEMM, 1250)
    with job.optimizer():
        job.op("aten::_fused_adamw_", [[512, 512]], "void multi_tensor_apply_kernel<FusedAdamMathFunctor>()", 1000)


def steps(action: Callable[[Trace], object], count: int = 5, **job: object) -> Trace:
    """A job whose steps all do the same."""
    trace = Trace(**job)  # type: ignore[arg-type]
    for _ in range(count):
        with trace.step():
            action(trace)
    return trace


def loading(data_ms: float, device_ms: float, count: int = 5, workers: int = 0) -> Trace:
    """Steps that load for `data_ms`, or wait for workers, then launch kernels of `device_ms`, and wait for them."""

    def step(job: Trace) -> None:
        job.loader(ms=data_ms, workers=workers)
        for _ in range(10):
            job.op("aten::mm", [[512, 512], [512, 512]], GEMM, device_ms * 100)
        job.item()

    return steps(step, count)


def saved(folder: Path, *ranks: Trace, record: dict[str, object] | None = None) -> Path:
    """The folder with one trace for each rank, and the record of each."""
    for job in ranks:
        job.write(folder / f"rank{job.rank}.json")
        if record is not None:
            (folder / f"capture-rank{job.rank}.json").write_text(json.dumps(record))
    return folder
