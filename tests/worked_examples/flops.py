"""Rows P, F, M, O and S: parameters, FLOPs per token and MFU."""

from dataclasses import replace

from diagnose.formulas import model_flops
from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import Convention, flops_per_token
from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.formulas.throughput import step_s
from worked_examples import formulas
from worked_examples.common import (
    LLAMA,
    MS,
    OPT,
    PEAK_FLOPS,
    PERCENT,
    TERA,
    Check,
    Inputs,
    model,
    tokens,
)

_LADDER = [f"M15.{table}" for table in (1, 3, 4, 5, 6, 7, 8, 9)]
_OPT_RUNS = ["O-naive", "O-opt", "O-opt1", "O-g32"]
_LLAMA_RUNS = ["S1-naive", "S1-opt", "S1-g32", *(f"S2-t{task}" for task in (1, 3, 4, 5, 6, 7, 8, 9))]


def _llama(x: Inputs) -> ModelShape:
    return replace(NAMED_MODELS[LLAMA], **x)


def _opt(x: Inputs) -> ModelShape:
    """OPT's heads fill the hidden size exactly, so a row may leave their number out."""
    given = {"positions" if name == "pos" else name: value for name, value in x.items()}
    return replace(NAMED_MODELS[OPT], **{"heads": 1, **given, "kv_heads": 0, "head_dim": 0})


def _per_token(convention: Convention) -> Check:
    return lambda x: flops_per_token(model(x), tokens(x), convention)


def _mfu(convention: Convention, peak_flops: float = PEAK_FLOPS) -> Check:
    """MFU in percent of the peak."""

    def percent(x: Inputs) -> float:
        flops = flops_per_token(model(x), tokens(x), convention) * x["tokens_per_s"]
        return PERCENT * model_flops.mfu_share(flops, 1.0, x.get("peak", peak_flops))

    return percent


def _step_ms(x: Inputs) -> float:
    return MS * step_s(x["batch"], tokens(x), x["tokens_per_s"])


def _tflops(x: Inputs) -> float:
    return flops_per_token(model(x), tokens(x), "palm") * x["tokens_per_s"] / TERA


def _with_opt(check: Check) -> Check:
    return lambda x: check({"model": OPT, **x})


_COLUMNS: dict[str, Check] = {
    "step": _step_ms,
    "tf": _tflops,
    "6N": _mfu("6n"),
    "PaLM": _mfu("palm"),
    "causal": _mfu("causal"),
    "HF": _mfu("hf"),
}
_OPT_COLUMNS = {name.lower() if name != "6N" else name: check for name, check in _COLUMNS.items() if name != "tf"}

ROWS: dict[str, Check] = {
    "P01": lambda x: _llama(x).matmul_parameters,
    "P02": lambda x: _llama(x).parameters,
    "P03": lambda x: _llama(x).parameters_without_embeddings,
    "P04": lambda x: _opt(x).parameters,
    "P05": lambda x: _opt(x).matmul_parameters,
    "P06": lambda x: _opt(x).parameters_without_embeddings,
    "F01": _per_token("6n"),
    "F02": lambda x: model_flops.attention_flops(model(x), tokens(x)),
    "F03": _per_token("palm"),
    "F04": lambda x: model_flops.flops_per_token(model(x), tokens(x), "6n-attention"),
    "F05": _per_token("causal"),
    "F06": _per_token("hf"),
    "F07": _with_opt(_per_token("6n")),
    "F08": _with_opt(_per_token("palm")),
    "F09": _with_opt(_per_token("causal")),
    "F10": _with_opt(_per_token("hf")),
    "F11": _with_opt(_per_token("palm")),
    **{f"{table}-{name}": check for table in _LADDER for name, check in _COLUMNS.items()},
    **{f"{run}-{name}": _with_opt(check) for run in _OPT_RUNS for name, check in _OPT_COLUMNS.items()},
    **{run: _mfu("palm") for run in _LLAMA_RUNS},
    "M-TF32": lambda x: formulas.exceeds_peak(x["achieved"], x["fp32_peak"]),
    "M-TF32b": _mfu("palm", 494.7e12),
    "M-FP32": _mfu("palm", 66.9e12),
    "M-PCIE": _mfu("palm", 756e12),
    "M-7B": lambda x: model_flops.mfu_share(model_flops.dense_flops_per_token(x["P"]) * x["tokens"], x["t"], x["peak"]),
}
