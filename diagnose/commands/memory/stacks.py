"""Read the stack of an allocation: the user's line, the library function below it, and what the memory is for.

The allocator does not know what a tensor is: a stack shows it as far as it goes. With torch's default, `stacks="all"`,
frames of C++ stand before, between and behind those of Python. The threads of the backward pass run no Python on a GPU,
so what they allocate has frames of C++ or none: mostly gradients, and recomputed activations.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from diagnose.commands.memory.answer import Category
from diagnose.trace.python_frames import is_compiled, is_of_library
from diagnose.trace.stacks import Frame

_NOWHERE = Frame("", 0, "")


@dataclass(frozen=True)
class Origin:
    """The origin of an allocation: the purpose, the innermost line of the user's own code, and what that line called.

    `below` is empty if the line itself called torch, and the innermost function of a library if no frame is the user's.
    """

    category: Category
    line: Frame | None
    below: str = ""

    @property
    def at(self) -> Frame:
        """The line, an empty one if none is known."""
        return self.line or _NOWHERE


def origins_of(stacks: Sequence[Sequence[Frame]]) -> list[Origin]:
    """The origin of what each stack allocated, innermost frame first.

    A library's `forward` does not say what it computes. Where all that one call of the model's code allocates and that
    has a name is of one part, the rest of that call is, too.
    """
    called = [_called(stack) for stack in stacks]
    parts: dict[Frame, set[str]] = defaultdict(set)
    for each in called:
        for frame in each.outer if each.part in _OF_A_CALL else ():
            parts[frame].add(_OF_A_CALL[each.part])
    return [
        Origin(category_of(stack), each.line, each.words(parts)) for stack, each in zip(stacks, called, strict=True)
    ]


def is_python(frame: Frame) -> bool:
    """Whether a frame is of Python: a file of it, or code typed in; those of C++ name a source file or none."""
    name = _name(frame)
    if name.endswith((".py", ".pyw")):
        return True
    is_script = bool(name) and "." not in name.strip("<>") and "/include/" not in _path(frame)  # or a header of C++
    return frame.line > 0 and is_script and not re.search(r"::|\(", frame.function)


# The library function below the user's line.

_PASSED_ON = {"_call_impl", "_wrapped_call_impl", "inner", "fn", "wrapper", "__call__"}
_PASSES_ON = re.compile(
    r"(^|/)torch/(_dynamo|_compile|_inductor|_functorch|_ops|_jit_internal|utils/_|autograd/grad_mode)"
)
_OF_TORCH = re.compile(r"(^|/)torch/")
_MODULE = re.compile(r"(^|/)torch/nn/modules/(?!module\.py)(?P<name>\w+)\.py$")
_IN_C = re.compile(r"THPVariable_(?P<name>\w+?)_?\(|torch::autograd::(generated::)?(?P<node>\w+)::apply\(")
_OF_ENGINE = re.compile(r"torch::autograd::(Engine|Node)::")
_PARTS = (  # by the function, the file or the operator, the first that matches
    ("loss", re.compile(r"loss|cross_entropy")),
    ("attention scores", re.compile(r"eager_attention|attention.* softmax")),
    ("attention", re.compile(r"attention|attn|sdpa")),
    ("MLP", re.compile(r"mlp|feed_?forward|\bffn|swiglu|geglu|experts", re.IGNORECASE)),
    ("norm", re.compile(r"norm", re.IGNORECASE)),
)
_OF_A_CALL = {"attention scores": "attention", "attention": "attention", "MLP": "MLP"}  # of what all of a call is
_ACTIVATIONS = re.compile(r"silu|gelu|relu")
_MODEL_FILE = re.compile(r"(^|/)modeling_\w+\.py$")


@dataclass(frozen=True)
class _Called:
    """Functions that the user's line called: the innermost of a library, torch's in it, and the calls around it."""

    line: Frame | None
    library: Frame | None = None
    by_torch: str = ""
    part: str = ""
    outer: tuple[Frame, ...] = ()

    def words(self, parts: Mapping[Frame, set[str]]) -> str:
        """Name them, with the part of the model: their own, or else that of the nearest call that has one."""
        if self.library is None:
            return self.by_torch
        around = next((parts[frame] for frame in self.outer if frame in parts), set())
        part = self.part or (next(iter(around)) if len(around) == 1 else "")
        where = f"{self.library.function} ({_name(self.library)}:{self.library.line})"
        return ", ".join(filter(None, (where, self.by_torch, part)))


def _called(stack: Sequence[Frame]) -> _Called:
    python = [frame for frame in stack if is_python(frame)]
    at = next((i for i, frame in enumerate(python) if not is_of_library(frame.file)), len(python))
    line = python[at] if at < len(python) else None
    told = [f for f in python[:at] if not _passes_on(f)]
    own = next((i for i, frame in enumerate(told) if not _OF_TORCH.search(_path(frame))), len(told))
    named = own > 0 and told[0].function not in _RUNS_BACKWARD
    by_torch = (_named_by_torch(told[0]) if named else _called_in_c(stack)) or ("backward" if own else "")
    if own == len(told):
        return _Called(line, None, by_torch)
    return _Called(line, told[own], by_torch, _part(told, told[own], by_torch), tuple(told[own + 1 :]))


def _passes_on(frame: Frame) -> bool:
    """Whether a function says nothing of what it calls: one that wraps others, or one that a compiler has written."""
    return frame.function in _PASSED_ON or is_compiled(frame.file) or _PASSES_ON.search(_path(frame)) is not None


def _named_by_torch(frame: Frame) -> str:
    """The name of torch's function or module: a module's `forward` says nothing, its file does."""
    module = _MODULE.search(_path(frame))
    is_common = "forward" in frame.function or frame.function in ("__init__", "reset_parameters")
    return module["name"] if module and is_common else frame.function


def _part(told: Sequence[Frame], library: Frame, called: str) -> str:
    """The part of the model in words, where names show it; "" else.

    A product that the outermost forward of a model's file makes itself is that of its head, which gives the logits.
    """
    if library.function == "__init__":
        return ""
    words = f"{library.function} {called}"
    found = next((part for part, pattern in _PARTS if pattern.search(words)), "")
    if found:
        return found
    within = [frame for frame in told if _MODEL_FILE.search(_path(frame))]
    if within and _ACTIVATIONS.search(called):
        return "MLP"
    return "logits" if within == [library] and called == "linear" else ""


def _called_in_c(stack: Sequence[Frame]) -> str:
    """The operator that Python called, or the node of the graph that runs, by frames of C++; "" if there are none."""
    found = (_IN_C.search(frame.function + "(") for frame in stack)
    return next((match["name"] or match["node"] for match in found if match), "")


def _path(frame: Frame) -> str:
    return frame.file.replace("\\", "/")


def _name(frame: Frame) -> str:
    return _path(frame).rpartition("/")[2]


# The purpose.

_MOVES = {"_apply", "to", "cuda", "half", "float", "bfloat16", "convert", "to_empty"}
_CALLS = {"_call_impl", "_wrapped_call_impl"}
_RUNS_BACKWARD = {"backward", "_engine_run_backward", "grad"}
_OF_BACKWARD = re.compile(r"(^|/)torch/(autograd/|utils/checkpoint|_functorch/|_dynamo/)")
_MAKES = ("torch/nn/parameter.py", "torch/nn/init.py", "torch/nn/modules/", "transformers/modeling_utils.py")
_SCOPE = r"(_(step|loop|epoch|one_epoch|model|dataset|batch|fn|loss|metrics))?"
_EVALUATES = re.compile(
    rf"_?(eval|evaluate|evaluation|validate|validation){_SCOPE}|\w+_(eval|evaluate|evaluation|validate|validation)"
    r"|_?(val|valid|test|predict|prediction)_(step|loop|epoch|one_epoch)"
)
_MAY_EVALUATE = re.compile(r"test|predict|infer|inference|test_model|predict_batch")
_TRAINER = re.compile(r"(^|/)transformers/trainer\w*\.py$")
_TRAINS = re.compile(r"train|fit", re.IGNORECASE)


def category_of(stack: Sequence[Frame]) -> Category:
    """The purpose of an allocation by its stack, innermost frame first."""
    if not stack:
        return "no stack"
    frames = [(_path(frame), frame.function) for frame in stack if is_python(frame)]
    if not frames:
        return _category_in_c(stack)
    if _is_of_optimizer(frames):
        return "optimizer"
    moves = any(name in _MOVES and "torch/nn/modules/module.py" in file for file, name in frames)
    if not moves and evaluates(stack):
        return "evaluation"
    if "torch/distributed/" in _innermost_of_torch(frames) or any(name == "_ddp_init_helper" for _, name in frames):
        return "communication"
    if recomputes(stack):
        return "activations"
    if runs_backward(stack) or runs_in_engine(stack):
        return "gradients"
    if any(name in _CALLS and "torch/nn/modules/module.py" in file for file, name in frames):
        return "activations"
    if moves or any(part in file for file, _ in frames for part in _MAKES):
        return "parameters"
    return "activations" if any("torch/nn/functional.py" in file for file, _ in frames) else "other"


def runs_backward(stack: Sequence[Frame]) -> bool:
    """Whether `backward` of torch has been called."""
    return any(frame.function in _RUNS_BACKWARD and "torch/" in _path(frame) for frame in stack if is_python(frame))


def runs_in_engine(stack: Sequence[Frame]) -> bool:
    """Whether a thread of the backward pass runs Python: a function of torch calls it, none of the job around that."""
    outermost = next((frame for frame in reversed(stack) if is_python(frame)), None)
    return outermost is not None and bool(_OF_BACKWARD.search(_path(outermost)))


def _is_of_optimizer(frames: Sequence[tuple[str, str]]) -> bool:
    """Whether the optimizer allocates, and not the forward or backward pass that it calls as its closure."""
    at = next((i for i, (file, _) in enumerate(frames) if "torch/optim/" in file or "deepspeed/ops/adam" in file), None)
    if at is None:
        return False
    return not any(name in _CALLS or name in _RUNS_BACKWARD or "closure" in name for _, name in frames[:at])


def _category_in_c(stack: Sequence[Frame]) -> Category:
    """The purpose by frames of C++ alone, as the threads of the backward pass have them."""
    if any("c10d::" in frame.function for frame in stack):
        return "communication"
    return "gradients" if any(_OF_ENGINE.search(frame.function) for frame in stack) else "other"


def evaluates(stack: Sequence[Frame]) -> bool:
    """Whether an evaluation allocates: a function that is named for one is on the stack, and not for training too.

    `predict` and `test` are also names of what a training step calls: they count where no function around them trains.
    """
    names = [f.function for f in stack if is_python(f) and not _OF_TORCH.search(_path(f))]
    if any(_EVALUATES.fullmatch(name) and not _TRAINS.search(name) for name in names):
        return True
    at = next((i for i, name in enumerate(names) if _MAY_EVALUATE.fullmatch(name)), None)
    return at is not None and not any(_TRAINS.search(name) for name in names[at:])


def _innermost_of_torch(names: Sequence[tuple[str, str]]) -> str:
    return next((file for file, _ in names if "torch/" in file), "")


def generates(stack: Sequence[Frame]) -> bool:
    """Whether text is generated: its cache grows with each token, and holds blocks of one line for every layer."""
    return any(
        is_of_library(frame.file) and (frame.function == "generate" or frame.file.endswith("cache_utils.py"))
        for frame in stack
    )


def recomputes(stack: Sequence[Frame]) -> bool:
    """Whether the allocation is made under activation checkpointing, which keeps one block of each layer."""
    return any("torch/utils/checkpoint.py" in _path(frame) for frame in stack)


def empties(stack: Sequence[Frame]) -> bool:
    """Whether the job empties the cache: torch.cuda.empty_cache in Python, emptyCache in C++."""
    return any(frame.function == "empty_cache" or "emptyCache" in frame.function for frame in stack)


def of_trainer(frame: Frame) -> bool:
    """Whether a frame is of the loops of transformers' Trainer, or of one that inherits them."""
    return bool(_TRAINER.search(_path(frame)))


def setting_that_empties(stack: Sequence[Frame]) -> Literal["", "torch_empty_cache_steps", "eval_accumulation_steps"]:
    """The setting by which the Trainer's loop empties the cache; "" if something else does."""
    python = [frame for frame in stack if is_python(frame) and frame.function != "empty_cache"]
    callers = [frame for frame in python if not _path(frame).endswith("torch/cuda/memory.py")]
    if not callers or not of_trainer(callers[0]):
        return ""
    return "eval_accumulation_steps" if evaluates(callers[:1]) else "torch_empty_cache_steps"
