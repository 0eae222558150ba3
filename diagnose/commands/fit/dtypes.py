"""Words for number types: those of options, and those of tables that others published."""

import re

from diagnose.commands.fit.stacks import StackRates
from diagnose.errors import WrongUsage
from diagnose.hardware import Gpu
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.precision import PRECISIONS

_FP4 = re.compile(r"fp4|float4|e2m1", re.I)
_FP8 = re.compile(r"fp8|float8|e4m3", re.I)
_HALF = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "no": "fp32"}


def default_dtype(stack: StackRates, gpu: Gpu) -> str:
    """The precision that the stack trains in by default, in fp16 on a GPU without bf16 units."""
    return stack.dtype if gpu.bf16_tflops or not gpu.fp16_tflops else _in_fp16(stack.dtype)


def stated_dtype(name: str) -> str:
    """The precision of that name.

    Raises:
        WrongUsage: it is none, or one that no rate is known of.
    """
    if _FP4.search(name):
        why = "its products, casts and scales are not modelled, and are not those of fp8"
        raise WrongUsage("4-bit training is not predicted", where=name, why=why, do="state bf16-mixed, and --fp8")
    if _FP8.search(name):
        why = "fp8 runs the blocks' products alone, beside weights in another type"
        raise WrongUsage("fp8 is a switch, not a number type", where=name, why=why, do="state bf16-mixed, and --fp8")
    return name


def check_dtype(plan: JobPlan) -> None:
    """Refuse bf16 on a GPU without such units.

    Raises:
        WrongUsage: with the precision that the GPU has.
    """
    if plan.precision.peak == "bf16" and not plan.gpu.bf16_tflops and plan.gpu.fp16_tflops:
        do, why = f"--dtype {_in_fp16(plan.dtype)}", f"{plan.gpu.key} has no bf16 units"
        raise WrongUsage("this GPU cannot train in bf16", where=f"--dtype {plan.dtype}", why=why, do=do)


def computed_in(word: str, default: str) -> tuple[str, bool]:
    """The dtype, and whether products run in fp8, where a table says what a job computes in.

    Args:
        word: such as `amp_bf16` (autocast over fp32 weights), `BF16`, `FP8-CS` or `MXFP8`.
        default: the dtype of the stack, which says how weights and states are kept.

    Raises:
        WrongUsage: it is no precision that is predicted.
    """
    if _FP8.search(word) and not _FP4.search(word):
        return default, True
    plain = word.casefold().removeprefix("amp_").removesuffix("-mixed")
    half = _HALF.get(plain, plain)
    if half in ("fp32", "tf32"):
        return half, False
    if half not in ("bf16", "fp16"):
        return stated_dtype(word), False
    if word.casefold().startswith("amp_") or default in ("fp32", "tf32"):
        return f"{half}-mixed", False
    return (_in_fp16(default) if half == "fp16" else default), False


def of_weights_and_autocast(weights: str, autocast: str) -> tuple[str, bool]:
    """The dtype, and whether products run in fp8, of weights in one type and autocast to another or "no".

    Raises:
        WrongUsage: they are no types that are predicted.
    """
    held, cast = (_HALF.get(word.casefold(), word.casefold()) for word in (weights or "fp32", autocast or "no"))
    if _FP4.search(cast):
        stated_dtype(cast)
    if _FP8.search(cast):
        return ("bf16-mixed" if held == "fp32" else held), True
    return (f"{cast}-mixed" if held == "fp32" and cast in ("bf16", "fp16") else held), False


def _in_fp16(dtype: str) -> str:
    fp16 = dtype.replace("bf16", "fp16")
    return fp16 if fp16 in PRECISIONS else fp16.removesuffix("-fp32-grads")
