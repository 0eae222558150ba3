"""Sound small jobs that the mutations begin with: those of the tests, the simulator's, and the sample traces."""

import gzip
import json
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from distributed_traces import DISTRIBUTED  # of tests/
from faulty_traces import CASES as FAULTY
from kineto import Trace as Job
from single_gpu_jobs import CASES as SINGLE

from diagnose.trace.vocabulary import PYTHON

ROOT = Path(__file__).parents[3]
Document = dict[str, Any]
MOST_EVENTS = 450
_MOST_OF_A_KIND = 80
MARK = "ProfilerStep"
_LARGEST_BYTES = 4 << 20
FEWEST, MOST, LARGEST_STEP = 50, 300, 55  # events of a drawn trace, and of one of its steps
_SAMPLES = ("cpu-healthy", "cpu-python-host", "cpu-slow-loader", "synthetic-memory-bound", "synthetic-tiny-kernels")
_HEADS = [[2, 8, 128, 64]] * 3
_PRODUCTS: tuple[tuple[str, Any], ...] = (  # operators whose work is computed from their shapes
    ("aten::mm", [[64, 64], [64, 64]]),
    ("aten::addmm", [[64], [64, 64], [64, 64], [], []]),
    ("aten::bmm", [[4, 64, 64], [4, 64, 64]]),
    ("aten::linear", [[64, 64], [64, 64], [64]]),
    ("aten::convolution", [[8, 16, 32, 32], [32, 16, 3, 3], [32], [], [], [], [], [], []]),
    ("aten::convolution_backward", [[8, 32, 30, 30], [8, 16, 32, 32], [32, 16, 3, 3], [0], [], [], [], [], [], [], []]),
    ("aten::_scaled_dot_product_flash_attention", [*_HEADS, [], [], []]),
    ("aten::_scaled_dot_product_efficient_attention", [*_HEADS, [], [], [], []]),
    ("aten::_flash_attention_forward", [[512, 8, 64], [512, 8, 64], [512, 8, 64], [3], [3], [], [], [], []]),
    ("aten::_scaled_dot_product_flash_attention_backward", [[2, 8, 128, 64]] * 5),
    ("aten::embedding", [[32000, 64], [8, 128], [], [], []]),
    ("aten::native_layer_norm", [[8, 128, 64], [], [64], [64], []]),
    ("aten::_log_softmax", [[1024, 32000], [], []]),
    ("aten::add", [[8, 128, 64], [8, 128, 64], []]),
    ("aten::cat", [[[8, 64], [8, 64]], []]),
    ("aten::index", [[8, 64], [[8]]]),
    ("aten::_foreach_add_", [[[64], [64, 64]], []]),
    ("aten::sum", [[8, 128, 64], [], [], []]),
)
_GIVEN: list[Path] = []  # folders of traces to begin with, beside those made here


def begin_with(folder: Path) -> None:
    """Half of the tries begin with a trace below `folder`, and jobs with the traces of a folder in it."""
    traces = (p for p in folder.rglob("*.json*") if p.suffix in (".json", ".gz") and p.stat().st_size < _LARGEST_BYTES)
    _GIVEN[:] = sorted({path.parent for path in traces if not path.name.startswith("capture-")})


@cache
def _texts_of(folder: Path) -> str:
    """The first traces in the folder that are sound, shortened."""
    found: list[Document] = []
    for path in sorted(folder.glob("*.json*")):
        try:
            content = path.read_bytes()
            document = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
            found += [shortened(document)] if "traceEvents" in document else []
        except (ValueError, OSError, EOFError, TypeError):
            continue
        if len(found) == 4:
            break
    return json.dumps(found)


def _given(folder: Path) -> list[Document]:
    found: list[Document] = json.loads(_texts_of(folder))
    return found or [sample(_SAMPLES[0])]


def drawn(seeded: random.Random) -> Document:
    """A small sound trace of one rank, drawn anew."""
    job = Job(gpu=None if seeded.random() < 0.15 else "NVIDIA H100 80GB HBM3")
    wanted = seeded.randint(FEWEST, MOST - LARGEST_STEP)
    while len(job.json()["traceEvents"]) < wanted:
        with job.step():
            job.loader(us=seeded.choice([0, 50, 900]))
            for _ in range(seeded.randint(2, 9)):
                _operator(job, *seeded.choice(_PRODUCTS))
            with job.optimizer():
                _operator(job, "aten::_fused_adamw_", [[[64, 64]], [[64, 64]]])
            if job.gpu:
                job.copy(4096)
                job.memory(1024, 1 << 30, 2 << 30)
                job.item()
    return job.json()


def _operator(job: Job, name: str, dims: Any) -> None:
    if job.gpu:
        job.op(name, dims, kernel="nvjet_tst_128x256_64x4_1x2_h_bz_TNT" if "mm" in name else "gemm", gpu_us=40)
    else:
        job.cpu_op(name, 40, dims)


def one_rank(seeded: random.Random) -> Document:
    """A sound trace of one rank, of any origin."""
    if _GIVEN and seeded.random() < 0.5:
        return seeded.choice(_given(seeded.choice(_GIVEN)))
    pick = seeded.random()
    if pick < 0.4:
        return drawn(seeded)
    if pick < 0.5:
        return sample(seeded.choice(_SAMPLES))
    if pick < 0.7:
        return content(SINGLE[seeded.choice(list(SINGLE))].faulty)
    return seeded.choice(ranks(seeded))


def ranks(seeded: random.Random) -> list[Document]:
    """Sound traces of a job, one for each rank: one to four of them."""
    if _GIVEN and seeded.random() < 0.3:
        return _given(seeded.choice(_GIVEN))
    pick = seeded.random()
    if pick < 0.35:
        return simulated(seeded.choice(("ddp", "fsdp", "tp_dp", "gloo")), seeded.randrange(6))
    if pick < 0.6:
        return built("FAULTY", "straggler", seeded.random() < 0.8)
    if pick < 0.8:
        return built("DISTRIBUTED", seeded.choice(["slow-links", "rotating-stragglers"]), seeded.random() < 0.8)
    table = seeded.choice(["FAULTY", "DISTRIBUTED"])
    return built(table, seeded.choice(sorted(FAULTY if table == "FAULTY" else DISTRIBUTED)), True)


@cache
def _built(table: str, name: str, faulty: bool) -> str:
    case: Any = FAULTY[name] if table == "FAULTY" else DISTRIBUTED[name]
    jobs = case.files(faulty)
    documents = [json.loads(jobs)] if isinstance(jobs, str) else [job.json() for job in jobs]
    return json.dumps([shortened(document) for document in documents[:4]])


def built(table: str, name: str, faulty: bool) -> list[Document]:
    """The job with the fault of a rule, or without it."""
    try:
        found: list[Document] = json.loads(_built(table, name, faulty))
    except ValueError:  # the job of one rule is a damaged text
        return built("FAULTY", "straggler", faulty)
    return found


@cache
def _simulated(kind: str, seed: int) -> str:
    from simulator import KINDS, Fault, simulate
    from simulator import Job as Plan

    fault = list(KINDS)[(seed * 5 + len(kind)) % len(KINDS)]
    faults = () if fault == "none" else (Fault(fault, (1,)),)
    size: dict[str, Any] = {
        "ranks": 4 if kind == "tp_dp" else 2 + seed % 2,
        "ranks_per_node": 2,
        "steps": 3,
        "layers": 1,
    }
    parallel: Any = "ddp" if kind == "gloo" else kind
    plan = Plan(**size, seed=seed, parallelism=parallel, model_parallel=2, gpu=kind != "gloo", faults=faults)
    return json.dumps([json.loads(text) for _, text in simulate(plan).traces()])


def simulated(kind: str, seed: int) -> list[Document]:
    """The job of a simulated fault, of two to four ranks."""
    found: list[Document] = json.loads(_simulated(kind, seed))
    return found


@cache
def _sample(name: str) -> str:
    document = json.loads(gzip.decompress((ROOT / "sample_traces" / f"{name}.json.gz").read_bytes()))
    return json.dumps(shortened(document))


def sample(name: str) -> Document:
    """A sample trace, cut to its first events."""
    found: Document = json.loads(_sample(name))
    return found


def shortened(document: Document) -> Document:
    """The document with at most `MOST_EVENTS` events: the marks of the steps, and the first of each category."""
    events = [e for e in document["traceEvents"] if isinstance(e, dict)]
    if len(events) <= MOST_EVENTS:
        return document
    found, held = [], Counter[str]()
    for event in sorted(events, key=_when):
        kind = MARK if str(event.get("name")).startswith(MARK) else str(event.get("cat"))
        held[kind] += 1
        if held[kind] <= (_MOST_OF_A_KIND if kind not in PYTHON else 10):
            found.append(event)
    return document | {"traceEvents": found[:MOST_EVENTS]}


def _when(event: dict[str, Any]) -> float:
    ts = event.get("ts")
    return ts if isinstance(ts, int | float) else 0.0


def content(job: Any) -> Document:
    """What a job of the tests writes."""
    found: Document = json.loads(json.dumps(job.json()))
    return shortened(found)


def texted(seeded: random.Random, document: Document) -> bytes:
    """The document as text, in one of the layouts that are in use."""
    events = document.get("traceEvents")
    if isinstance(events, list) and seeded.random() < 0.1:
        seeded.shuffle(events)
    if seeded.random() < 0.05 and isinstance(events, list):
        return json.dumps(events).encode()
    indent = seeded.choice([*[None] * 8, 1, 2])
    try:
        return json.dumps(document, indent=indent).encode()
    except (RecursionError, ValueError):
        return b'{"traceEvents": ' + b"[" * 3000 + b"]" * 3000 + b"}"
