"""Find the purpose of an allocation by the stack that made it, and the user's line.

The allocator does not know what a tensor is: a stack shows it as far as it goes. The threads of the backward pass run
no Python on a GPU, so what they allocate has no stack: mostly gradients, and recomputed activations.
"""

from collections.abc import Sequence

from diagnose.commands.memory.answer import Category
from diagnose.trace.python_frames import is_of_library
from diagnose.trace.stacks import Frame

_MOVES = {"_apply", "to", "cuda", "half", "float", "bfloat16", "convert", "to_empty"}
_CALLS = {"_call_impl", "_wrapped_call_impl"}
_RUNS_BACKWARD = {"backward", "_engine_run_backward"}
_MAKES = ("torch/nn/parameter.py", "torch/nn/init.py", "torch/nn/modules/", "transformers/modeling_utils.py")


def category_of(stack: Sequence[Frame]) -> Category:
    """The purpose of an allocation by its stack, innermost frame first."""
    if not stack:
        return "no stack"
    names = [(frame.file.replace("\\", "/"), frame.function) for frame in stack]
    if any("torch/optim/" in file or "deepspeed/ops/adam" in file for file, _ in names):
        return "optimizer"
    if _innermost_of_torch(names).find("torch/distributed/") >= 0 or ("", "_ddp_init_helper") in _bare(names):
        return "communication"
    if any("torch/utils/checkpoint.py" in file for file, _ in names):
        return "activations"
    if any(name in _RUNS_BACKWARD and ("torch/" in file) for file, name in names):
        return "gradients"
    if any(name in _CALLS and "torch/nn/modules/module.py" in file for file, name in names):
        return "activations"
    if any(name in _MOVES and "torch/nn/modules/module.py" in file for file, name in names):
        return "parameters"
    if any(part in file for file, _ in names for part in _MAKES):
        return "parameters"
    return "activations" if any("torch/nn/functional.py" in file for file, _ in names) else "other"


def line_of(stack: Sequence[Frame]) -> Frame | None:
    """The innermost line of the user's own code."""
    return next((frame for frame in stack if not is_of_library(frame.file)), None)


def _innermost_of_torch(names: Sequence[tuple[str, str]]) -> str:
    return next((file for file, _ in names if "torch/" in file), "")


def _bare(names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    return {("", name) for _, name in names}
