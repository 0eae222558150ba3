"""Remedies for a long start of a job, part by part, with what each saves at most."""

from collections.abc import Callable, Mapping

from diagnose.diagnosis import StartAdvice
from diagnose.judge.goodput import COMPILING
from diagnose.probes.frameworks import ACCELERATE, TRAINER
from diagnose.trace.record import CaptureRecord

IMPORTS, MODEL, DATA, MAP = "imports", "loading the model", "loading the data set", "datasets.map"
CHECKPOINT, SKIPPED = "reading checkpoints", "batches read and skipped"
LONG_S, LONG_SHARE = 1.0, 0.1  # of a part, at least, and of the start
USUAL_IMPORTS_S = 10.0  # of torch with a few libraries, from a local disk
_IN_NO_FILE = """its result is in no file, and computed anew at each start: save it once with save_to_disk, and
load_from_disk it"""
_CACHED = """it was not in the cache: keep that (HF_DATASETS_CACHE) on a disk that outlives the job, and the mapped
function as it is, and later starts read it"""
_ON_ONE_RANK = """map on one rank first, and let the others read its cache: with training_args.main_process_first() or
accelerator.main_process_first()"""
_KEEPS_ITS_PLACE = """load with torchdata's StatefulDataLoader and keep its state_dict() in the checkpoint, or give a
map-style data set a sampler that begins behind them"""
_SKIPS_LESS = {
    TRAINER.name: """set TrainingArguments(..., ignore_data_skip=True), by which the resumed epoch begins with its first
batch and trains on some samples twice; or train on a map-style data set, which is skipped in its sampler, unread""",
    ACCELERATE.name: """set DataLoaderConfiguration(use_stateful_dataloader=True), which needs torchdata, and resume by
accelerator.load_state() in the place of skip_first_batches; or load a map-style data set""",
}
Remedy = Callable[[CaptureRecord, float], list[tuple[str, float]]]


def advice_of(record: CaptureRecord, parts: Mapping[str, float], start_s: float) -> tuple[StartAdvice, ...]:
    """The advice on the parts that take long, what saves most first."""
    long = {part: took for part, took in parts.items() if took >= max(LONG_S, LONG_SHARE * start_s)}
    found = [
        StartAdvice(what=part, do=" ".join(do.split()), saves_s=saves_s)
        for part, took in long.items()
        for do, saves_s in (_REMEDIES[part](record, took) if part in _REMEDIES else [])
    ]
    return tuple(sorted(found, key=lambda each: -each.saves_s))


def _imports(_: CaptureRecord, took_s: float) -> list[tuple[str, float]]:
    over_s = took_s - USUAL_IMPORTS_S
    do = "put the Python environment on a local disk (a container image, a copy at the job's start) rather than on a "
    do += "network file system; python -X importtime shows the slowest modules"
    return [(do, over_s)] if over_s > 0 else []


def _model(record: CaptureRecord, took_s: float) -> list[tuple[str, float]]:
    dtypes = record.get("model.dtypes") or {}
    half = ', and load dtype="auto" where it may train so' if "float32" in dtypes else ""
    return [(f"keep the weights as safetensors on a local disk (HF_HOME){half}", took_s)]


def _data(_: CaptureRecord, took_s: float) -> list[tuple[str, float]]:
    return [("keep the cache of datasets (HF_DATASETS_CACHE) on a local disk that outlives the job", took_s)]


def _map(record: CaptureRecord, took_s: float) -> list[tuple[str, float]]:
    computed, in_memory = (record.number(f"run_time.maps.{name}") for name in ("computed", "in_memory"))
    if not computed:
        return []  # it was read from the cache, or nothing tells
    cores = (record.number("cores.usable") or 1) / (record.number("cores.local_ranks") or 1)
    processes, most = record.number("run_time.maps.processes") or 1, int(cores)
    found = [(_IN_NO_FILE if in_memory else _CACHED, took_s)]
    if most > processes:
        do = f"pass num_proc={most}, on the cores of this rank, rather than {processes:.0f}"
        found.append((do, took_s * (1 - processes / most)))
    if (record.number("world_size") or 1) > 1 and not in_memory:
        found.append((_ON_ONE_RANK, 0.0))
    return found


def _checkpoint(_: CaptureRecord, took_s: float) -> list[tuple[str, float]]:
    do = "read checkpoints from a local disk, with torch.load(..., mmap=True), or a shard by each rank"
    return [(f"{do} (torch.distributed.checkpoint)", took_s)]


def _skipped(record: CaptureRecord, took_s: float) -> list[tuple[str, float]]:
    batches = f"if a resume skips these about {record.number('run_time.skipped.batches') or 0:,.0f} batches,"
    own = _SKIPS_LESS.get(record.get("training_loop"), _KEEPS_ITS_PLACE)
    return [(f"{batches} {own}", took_s)]


def _compiling(_: CaptureRecord, took_s: float) -> list[tuple[str, float]]:
    do = "keep TORCHINDUCTOR_CACHE_DIR on a disk that outlives the job, or compile one repeated block rather than the "
    return [(f"{do}whole model (regional compilation)", took_s)]


_REMEDIES: dict[str, Remedy] = {
    IMPORTS: _imports,
    MODEL: _model,
    DATA: _data,
    MAP: _map,
    CHECKPOINT: _checkpoint,
    SKIPPED: _skipped,
    COMPILING: _compiling,
}
