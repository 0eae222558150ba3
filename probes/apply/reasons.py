"""Why a value of a patch is not used: every reason once, in the words that users read, with what it binds.

A reason of the job holds however the change is made: typed by hand it would also do harm, or nothing. So no report
advises the change. A reason of the patch holds for `diagnose run --apply` alone.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

JOB, PATCH = "job", "patch"


class Reason(Enum):
    """The reasons, each with what it binds; `{}` stands for what this job has."""

    def __new__(cls, binds: str, text: str) -> Any:
        """Make a member of its own for each line, even if two have the same text."""
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        return member

    def __init__(self, binds: str, text: str) -> None:
        self.binds, self.text = binds, text

    # Samples
    REPEATED = JOB, "each worker would repeat the data of an IterableDataset"
    ON_A_DEVICE = JOB, "the dataset holds tensors of a device, which workers cannot read"
    OPEN_FILE = JOB, "the dataset holds a file open ({}), whose position its workers would share"
    KEEPS_A_STATE = (
        JOB,
        "the same sample comes out differently a second time: the dataset keeps a state, and workers have copies",
    )
    NOT_FETCHED = JOB, "a sample cannot be fetched in a worker: {}"
    SPLIT_OTHERWISE = PATCH, "workers split this IterableDataset among them, which gives another order: type it"
    NOT_FORKED = PATCH, "workers start by {} here, and this job has none so far: its data may not be picklable"
    SAMPLER_DRAWS = PATCH, "workers read the sampler ahead of the loop, and {} may draw as it goes"
    ANOTHER_ORDER = (
        PATCH,
        "a sample draws from torch's generator, and so does the order of the next pass: give the DataLoader a "
        "generator of its own, or type it",
    )
    NOT_TRIED = PATCH, "whether a sample can be fetched in a worker is not known: {}"

    # Loaders
    WORKERS_STAY = JOB, "the job's {} need workers"
    NEEDS_WORKERS = JOB, "it needs {} above 0"
    PINS_A_DEVICE = JOB, "the dataset holds tensors of a device"
    NOTHING_TO_PIN_FOR = JOB, "there is no GPU to pin for"
    LATER_PASSES = (
        PATCH,
        "later passes would come in another order: workers that persist save a draw from the generator",
    )
    STREAM_GOES_ON = PATCH, "the copies of an IterableDataset would go on where the pass before left them"

    # Padding
    NOT_CUT = PATCH, "padding is not cut off the batches: {}"
    NO_MASKS = PATCH, "the rows are padded to one length and hold no attention_mask, by which to group them"

    # Arguments and constructors
    NO_ARGUMENT = JOB, "this {} has no such argument"
    RAISES = JOB, "{}"
    MADE_OTHERWISE = JOB, "TrainingArguments makes it {}"
    MODEL_TAKES = JOB, "the model takes {}"
    NO_CHECKPOINTING = JOB, "{} does not support it"
    NO_LENGTHS = JOB, "its samples hold neither {} nor their lengths, and the Trainer could not group them"
    STREAM_NOT_GROUPED = JOB, "an IterableDataset gives its samples in an order of its own"
    UNLISTED = (
        PATCH,
        "lengths are taken by going through the whole dataset, which only a list and a datasets.Dataset with a column "
        "length or input_ids are known to allow",
    )
    ANOTHER_OPTIMIZER = JOB, "the job's optimizer is another one, and would train differently"
    ONE_PRECISION = JOB, "the job trains in {} already, and takes one of both"
    NO_TF32 = JOB, "TF32 needs a GPU of compute capability 8.0 or more"
    OF_DEEPSPEED = JOB, "the DeepSpeed config sets {}, and both have to agree"
    IN_DEEPSPEED_FILE = PATCH, "the DeepSpeed config may set {} too, and both have to agree"
    NO_ATTENTION = JOB, "{} has no such attention"
    DYNAMO_PLUGIN = JOB, "the job gives a dynamo_plugin"
    NO_LIGER = PATCH, "liger-kernel is not installed"
    NO_GPU_FOR_LIGER = JOB, "the job has no GPU, and Liger's kernels run on one alone"
    MADE_BEFORE = PATCH, "these arguments were made before the patch"

    # Optimizers, compilation, torch's settings
    NO_FORM = JOB, "{} of this torch has no such form"
    COMPILED = JOB, "the model is compiled already"
    NO_COMPILER = JOB, "{}"
    DETERMINISTIC = JOB, "the job asks for deterministic algorithms"
    NO_CUDNN = JOB, "there is no GPU, and cuDNN runs on one alone"
    SHARDED = PATCH, "the model is sharded: what to compile of it is the script's to say"
    OF_TORCH = PATCH, "{} is torch's own class, which Module.compile leaves as it is: type model = torch.compile(model)"
    NO_MODULE = PATCH, "no module holds all parameters of the optimizer"
    NOT_CALLED = PATCH, "no module that holds the optimizer's parameters was called"
    LOADED_STATE = PATCH, "a state that the job loads into its optimizer, or a group of its own, sets it otherwise"
    SET_SINCE = PATCH, "the job sets it to {}"
    COLLECTS_AGAIN = PATCH, "the job switches the collector on again"
    NEVER_MADE = PATCH, "{}"
    OTHER_VARIABLE = PATCH, "the variable was changed on the way or by the job"


class Refusal(NamedTuple):
    """A reason as it applies here; `unless_set` names the key that would make it void."""

    reason: Reason
    here: str = ""
    unless_set: str = ""

    @property
    def because(self) -> str:
        """The reason in words."""
        return self.reason.text.format(self.here) if self.here else self.reason.text

    @property
    def binds(self) -> str:
        """ "job" or "patch"."""
        return self.reason.binds
