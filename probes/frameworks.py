"""The training frameworks that are known, one row each: what runs a training loop, and what follows from that.

The probes, the analysis and the start-up file of every Python process of a job ask this table, and nothing else names a
framework to decide by it. Like `protocol` it imports nothing, and keeps to the syntax of Python 3.9. A framework is a
row here, a module of `trainers/`, a key in `data/settings.toml` and its lines in `docs/capture.md`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Target:
    """A place that takes settings in a patch.

    Attributes:
        name: of the target, in patches and in `data/settings.toml`.
        typed: the line that a user types, with {} for the settings.
        place: what follows a setting in a sentence, such as "of the DataLoader".
        is_json: whether the settings are keys of a JSON file, joined by points.
    """

    def __init__(self, name: str, typed: str, place: str = "", is_json: bool = False) -> None:
        self.name, self.typed, self.place, self.is_json = name, typed, place, is_json

    @property
    def call(self) -> str:
        """The call whose keywords the settings are; empty if they stand deeper inside, or in a file."""
        call, _, rest = self.typed.partition("(")
        return call if rest == "..., {})" else ""


class Framework:
    """A framework that may run a training loop, or the bare loop.

    Attributes:
        name: in the record, in facts and in rules.
        key: of its ways to make a setting, in `data/settings.toml`.
        packages: as they are imported; their frames are no code of the user's.
        hooks: modules of the job, with the module of the probes whose `install()` follows their import.
        patches: the same in a run with a patch.
        input_hooks: the same in a run that measures the input alone.
        modules: which of its modules call the optimizer in its loop; one that ends with a point means all below it.
        ranges: a regular expression of names that only its loop puts into a trace.
        fetches: a regular expression of the ranges in which its loop waits for a batch.
        frames: what the job does inside a file of it: part of the path, a function or None for any, and the name.
        targets: what takes its settings.
        wrapper: the target that hands settings on to DistributedDataParallel.
        has_own_words: whether rules name settings as it does.
        reduces_gradients: whether its own engine does, whatever runs the loop.
        has_plain_samplers: whether its samplers draw the same if they are asked ahead of time.
        logs_figures: whether its own loggers get the figures of the steps.
        unrecorded: what no record holds about the memory of its jobs.
    """

    def __init__(
        self,
        name: str,
        key: str,
        *,
        packages: "tuple[str, ...]",
        hooks: "Mapping[str, str]",
        patches: "Mapping[str, str]" = {},  # noqa: B006 - no row changes it
        input_hooks: "Mapping[str, str]" = {},  # noqa: B006
        modules: "tuple[str, ...]" = (),
        ranges: str = "",
        fetches: str = "",
        frames: "tuple[tuple[str, str | None, str], ...]" = (),
        targets: "tuple[Target, ...]" = (),
        wrapper: str = "ddp",
        has_own_words: bool = False,
        has_plain_samplers: bool = False,
        reduces_gradients: bool = False,
        logs_figures: bool = False,
        unrecorded: str = "",
    ) -> None:
        self.name, self.key, self.packages = name, key, packages
        self.hooks, self.patches, self.input_hooks = hooks, patches, input_hooks
        self.modules, self.ranges, self.fetches, self.frames = modules, ranges, fetches, frames
        self.targets, self.wrapper = targets, wrapper
        self.has_own_words, self.has_plain_samplers = has_own_words, has_plain_samplers
        self.unrecorded, self.reduces_gradients = unrecorded, reduces_gradients
        self.logs_figures = logs_figures

    def runs(self, module: str) -> bool:
        """Whether a function of this module, on the stack of an optimizer step, shows that the framework runs it."""
        return any(module.startswith(each) if each.endswith(".") else module == each for each in self.modules)

    @property
    def loops(self) -> "tuple[str, ...]":
        """The paths of these modules: of a file, or of a folder with the separator at its end."""
        return tuple(each.replace(".", "/") + ("" if each.endswith(".") else ".py") for each in self.modules)


TRAINER = Framework(
    "transformers Trainer",
    "trainer",
    packages=("transformers",),
    hooks={"transformers.trainer": "trainers.transformers_trainer"},
    patches={
        "transformers.training_args": "apply.training",
        "transformers.trainer": "apply.trainer",
        "transformers.modeling_utils": "apply.model",
    },
    input_hooks={"transformers.trainer": "pipeline.trainer_begin"},
    modules=("transformers.trainer",),
    targets=(
        Target("training_arguments", "TrainingArguments(..., {})"),
        Target("model_kwargs", "from_pretrained(..., {})"),
    ),
    has_own_words=True,
    has_plain_samplers=True,
    logs_figures=True,
)
LIGHTNING_ROOTS = ("lightning.pytorch", "pytorch_lightning")  # the modules that hold all that its Trainer is made of
LIGHTNING = Framework(
    "Lightning",
    "lightning",
    packages=("lightning", "pytorch_lightning"),
    hooks={
        "lightning.pytorch.trainer.trainer": "trainers.lightning_trainer",
        "pytorch_lightning.trainer.trainer": "trainers.lightning_trainer",
    },
    modules=(
        "lightning.pytorch.trainer.",
        "lightning.pytorch.loops.",
        "pytorch_lightning.trainer.",
        "pytorch_lightning.loops.",
    ),
    ranges=r"\[pl\]|\[(Strategy|LightningModule|LightningDataModule)\]",
    fetches=r"\[pl\]\[profile\](\[\w+Loop\]\.\w*next|get_train_batch)$",  # whatever it loads with
    targets=(
        Target("lightning_trainer", "Trainer(..., {})", "of Lightning's Trainer"),
        Target("ddp_strategy", "Trainer(..., strategy=DDPStrategy({}))", "of DDPStrategy"),
    ),
    wrapper="ddp_strategy",
    has_plain_samplers=True,
)
ACCELERATE = Framework(
    "Accelerate",
    "accelerate",
    packages=("accelerate",),
    hooks={},  # it counts no steps: the optimizers that it wraps are torch's (`hooks/accelerate_hooks`)
    patches={"accelerate.accelerator": "apply.accelerate"},
    modules=("accelerate.optimizer", "accelerate.accelerator"),
    ranges=r"Accelerator\.",
    frames=(("accelerate/data_loader.py", None, "loading"), ("accelerate/optimizer.py", "step", "optimizer")),
    targets=(
        Target("accelerator", "Accelerator(..., {})", "of the Accelerator"),
        Target(
            "accelerate_ddp",
            "Accelerator(..., kwargs_handlers=[DistributedDataParallelKwargs({})])",
            "of DistributedDataParallelKwargs",
        ),
    ),
    wrapper="accelerate_ddp",
    has_plain_samplers=True,
)
DEEPSPEED = Framework(
    "DeepSpeed",
    "deepspeed",
    packages=("deepspeed",),
    hooks={
        "deepspeed.runtime.engine": "trainers.deepspeed_engine",
        "deepspeed.runtime.pipe.engine": "trainers.deepspeed_engine",
    },
    modules=("deepspeed.runtime.",),
    ranges=r"DeepSpeedEngine\.|(Pre|Post)BackwardFunction(For)?Module|LinearFunctionForZeroStage3",
    targets=(Target("ds_config", "ds_config.json: {}", "in the DeepSpeed config", is_json=True),),
    reduces_gradients=True,
    unrecorded="DeepSpeed's ZeRO stage",
)
BARE_LOOP = Framework(
    "bare loop",
    "torch",
    packages=("torch",),
    hooks={
        "torch": "hooks.torch_hooks",
        "torch._dynamo.callback": "hooks.compile_hooks",
        **dict.fromkeys(
            ("datasets.load", "transformers.modeling_utils", "accelerate.accelerator"), "hooks.start_hooks"
        ),
    },
    patches={"torch": "apply.torch"},
    input_hooks={"torch": "pipeline.loop_begin"},
    targets=(
        Target("dataloader", "DataLoader(..., {})", "of the DataLoader"),
        Target("ddp", "DistributedDataParallel(..., {})", "of DistributedDataParallel"),
        Target("optimizer", "torch.optim.*(..., {})"),
    ),
    has_plain_samplers=True,
)

FRAMEWORKS = (TRAINER, LIGHTNING, ACCELERATE, DEEPSPEED, BARE_LOOP)  # each may use those after it


LOOP = "loop"
"""What a library's training loop does, and torch's own code around the model: no work of a line that calls it."""
LOOPS = (
    *(path for each in FRAMEWORKS for path in each.loops),
    "torch/nn/",
    "torch/autograd/",
    "torch/amp/",
    "torch/distributed/",
    "torch/_dynamo/",
    "torch/_functorch/",
    "torch/_inductor/",
    "torch/utils/checkpoint.py",
)
CALL_HOOKS = (
    ("torch/nn/modules/module.py", ""),
    ("torch/utils/hooks.py", ""),
    ("torch/autograd/graph.py", "_engine_run_backward"),
)
"""What calls the user's hooks: part of a file's path, function ("" for each). A hook's work is the step's own: it can
be moved out of the step, and the pass that calls it stays."""
HOOKED = ("forward", "backward")  # what torch does when it calls hooks
PASS = "forward"  # a function that such code calls and whose name ends so is a module's pass, and no hook
WORK_OF_A_LINE = ("torch/distributed/checkpoint/",)  # the work of a line that calls it, though it is below one of these


def named(name: str) -> Framework:
    """The framework of this name; a name without a row is a `LookupError`, and never a bare loop."""
    for each in FRAMEWORKS:
        if each.name == name:
            return each
    raise LookupError(f"{name[:60]!r} is no training framework that this version knows")


def targets() -> "dict[str, Target]":
    """The places that take settings of any framework, by name."""
    return {target.name: target for each in FRAMEWORKS for target in each.targets}


def wrappers() -> "frozenset[str]":
    """The targets that hand settings on to DistributedDataParallel."""
    return frozenset(each.wrapper for each in FRAMEWORKS)


def hooks(columns: "Iterable[str]") -> "dict[str, tuple[str, ...]]":
    """The modules of a job that are watched, each with those of the probes that are installed after its import.

    Args:
        columns: of the table: `hooks`, `patches` or `input_hooks`.
    """
    asked = [getattr(each, column) for column in columns for each in reversed(FRAMEWORKS)]
    watched = dict.fromkeys(name for modules in asked for name in modules)
    return {name: tuple(modules[name] for modules in asked if name in modules) for name in watched}
