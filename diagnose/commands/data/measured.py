"""The probe's measurement of a job's input, decoded once: a value of the wrong type or range is refused here."""

from pathlib import Path
from typing import Annotated

import msgspec

from diagnose.decoding import UNREADABLE
from diagnose.errors import UserError
from diagnose.formulas.data_pipeline import cores_of_rank
from diagnose.probes.pipeline.asked import VERSION

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class StageTime(msgspec.Struct, frozen=True):
    """Times of a stage in process: nanoseconds of each batch, and sums.

    `sample_bytes` is its output for each sample.
    """

    samples: Count
    times_ns: tuple[Count, ...]
    wall_ns: Count
    cpu_ns: Count
    process_cpu_ns: Count
    queued_ns: Count
    sample_bytes: Amount | None = None


class LoadingTime(msgspec.Struct, frozen=True):
    """CPU time of loading in process, by whose it is, as a capture records it."""

    wall_ns: Count | None = None
    cpu_ns: Count | None = None
    together_cpu_ns: Count | None = None
    process_cpu_ns: Count | None = None
    busy: Amount | None = None


class SampledFunction(msgspec.Struct, frozen=True):
    """A function of the user's with its share of the samples of the stack."""

    file: str
    line: Count
    function: str
    samples: Count
    calls: str | None = None


class StageStacks(msgspec.Struct, frozen=True):
    """Samples of the stack in a stage, by kind of work and by function."""

    samples: Count
    work: dict[str, Count]
    functions: tuple[SampledFunction, ...]


class Stacks(msgspec.Struct, frozen=True):
    """Samples of both stages; `because` if there are none."""

    fetch: StageStacks | None = None
    collate: StageStacks | None = None
    because: str = ""


class Rounds(msgspec.Struct, frozen=True):
    """Steady batches of so many workers; `because` if there are none. `first_s`: until the first batch came.

    `cores` are those on which the workers may run, all of them together.
    """

    workers: Count
    because: str = ""
    first_s: Amount = 0.0
    batch_size: Count = 1
    batches: Count = 0
    wall_ns: Count = 0
    cpu_share: Amount | None = None
    cores: Count | None = None

    @property
    def samples_per_s(self) -> float | None:
        """Samples per second; None if the rate was not measured."""
        return self.batches * self.batch_size / self.wall_ns * 1e9 if self.batches and self.wall_ns else None


class Moved(msgspec.Struct, frozen=True):
    """Samples and bytes that were read or copied in a time; `because` if none were."""

    samples: Amount = 0.0
    bytes: Count = 0
    wall_ns: Count = 0
    because: str = ""


class Storage(msgspec.Struct, frozen=True):
    """Files that were read as the dataset reads them."""

    because: str = ""
    files: Count = 0
    order: str = ""
    cold: Moved = Moved()
    warm: Moved = Moved()


class ThreadTimes(msgspec.Struct, frozen=True):
    """CPU time of the loading and of a second thread."""

    wall_ns: Count
    loading_ns: Count
    beside_ns: Count


class Lock(msgspec.Struct, frozen=True):
    """Measurements of the loading next to a thread in Python, and next to one that needs no lock."""

    in_python: ThreadTimes | None = None
    without_lock: ThreadTimes | None = None
    because: str = ""


class RowsBeforeCollation(msgspec.Struct, frozen=True):
    """Rows as the collate function got them: padding that they brought along, and padding that collating added."""

    batches: Count
    samples: Count
    padded_tokens: Count
    collated_tokens: Count
    with_ids: Count
    with_mask: Count
    least_length: Count
    most_length: Count
    collates: str = "unknown"


class SampleLengths(msgspec.Struct, frozen=True):
    """Tokens of samples without padding, and (samples, tokens of a row) of batches."""

    samples: tuple[Count, ...]
    batches: tuple[tuple[Count, Count], ...]
    because: str = ""
    before_collation: RowsBeforeCollation | None = None


class Loader(msgspec.Struct, frozen=True):
    """Settings of the DataLoader; null if its class does not hold them."""

    num_workers: Count | None = None
    pin_memory: bool | None = None
    prefetch_factor: Count | None = None
    persistent_workers: bool | None = None
    batch_size: int | None = None
    drop_last: bool | None = None


class Dataset(msgspec.Struct, frozen=True, rename={"name": "class"}):
    """The dataset; `samples` is null if their number is unknown. `collated`: whether samples are made into batches."""

    name: str
    is_iterable: bool
    collated: bool
    samples: Count | None = None


class Cores(msgspec.Struct, frozen=True):
    """Cores of this process, of the cgroup, and of all ranks here."""

    usable: Amount | None = None
    quota: Amount | None = None
    shared: Amount | None = None
    local_ranks: Count | None = None

    @property
    def per_rank(self) -> float | None:
        """Number of cores of one rank; None if it is unknown, or zero, which nobody has."""
        if not self.usable or self.local_ranks is None:
            return None
        return cores_of_rank(self.usable, self.local_ranks, (self.shared, self.quota)) or None


class LoadingMeasurement(msgspec.Struct, frozen=True):
    """The probe's whole answer."""

    version: int
    loop: str
    rank: Count
    world_size: Count
    cores: Cores
    loader: Loader
    batch_size: Count
    dataset: Dataset
    first_s: Amount
    stopped: str
    fetch: StageTime
    collate: StageTime
    loading: LoadingTime
    stacks: Stacks
    storage: Storage
    lock: Lock
    workers: tuple[Rounds, ...]
    hand_over: Rounds
    pin: Moved
    copy: Moved
    lengths: SampleLengths
    restarts: Count
    seconds: Amount
    batches_per_step: Count | None = None
    pass_batches: Count | None = None
    times_repeated: Count = 1
    refuses: tuple[dict[str, str | bool | None], ...] = ()


class LoaderLeft(msgspec.Struct, frozen=True):
    """A DataLoader that was iterated and not measured."""

    number: str
    dataset: str
    because: str
    times_repeated: Count = 1


class PassedOver(msgspec.Struct, frozen=True):
    """Observations of a script that was not measured. `empty`: why its loader has no batch."""

    loaders: tuple[LoaderLeft, ...] = ()
    trains: bool = False
    empty: str = ""


def decoded(content: bytes) -> LoadingMeasurement:
    """The probe's answer.

    Raises:
        UserError: it is invalid, or of another version.
    """
    try:
        measured = msgspec.json.decode(content, type=LoadingMeasurement)
    except UNREADABLE as error:
        raise UserError("the measurement cannot be read", why=str(error)) from error
    if measured.version != VERSION:
        why = f"the job's Python has probes of version {measured.version}, and this is {VERSION}"
        raise UserError("the measurement cannot be read", why=why, do="install one version of diagnose")
    return measured


def passed_over(file: Path) -> PassedOver:
    """Observations that the probe left of a script that it did not measure; empty if it left none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=PassedOver)
    except (OSError, *UNREADABLE):
        return PassedOver()
