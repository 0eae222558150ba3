"""Rows T, X and D: throughput, speed-ups and scaling."""

from diagnose.formulas import model_flops, scaling, throughput
from worked_examples import formulas
from worked_examples.common import MS, PEAK_FLOPS, PERCENT, Check, Inputs, model, tokens

_RANKS = (1, 2, 4, 8, 16, 32)
_STEPS = ("15.1-15.9", "15.1-15.3", "15.3-15.4", "15.4-15.5", "15.5-15.6", "15.6-15.7", "15.7-15.8", "15.8-15.9")


def _reported(x: Inputs) -> float:
    return throughput.tokens_per_s(x["steps"], x["bs"], x["seq"], x["seconds"], x["world"])


def _mfu(x: Inputs) -> float:
    flops = model_flops.flops_per_token(model(x), tokens(x), "palm") * x["tok_s_per_gpu"]
    return PERCENT * model_flops.mfu_share(flops, 1.0, x.get("peak", PEAK_FLOPS))


def _doubling(x: Inputs) -> float:
    return formulas.doubling_efficiency(x.get("n", 1), x["before"], x["after"])


_SCALING: dict[str, Check] = {
    "total": lambda x: formulas.total_rate(x["n_gpus"], x["tok_s_per_gpu"]),
    "speedup": lambda x: formulas.scaling_speedup(x["n_gpus"], x["tok_s_per_gpu"], x["base"]),
    "eff": lambda x: PERCENT * scaling.scaling_efficiency(x["tok_s_per_gpu"], x["base"]),
    "step": lambda x: MS * throughput.step_s(x["batch"], tokens(x), x["tok_s_per_gpu"]),
    "tax": lambda x: MS * scaling.scaling_tax_s(x["batch"], tokens(x), x["tok_s_per_gpu"], x["base"]),
    "mfu": _mfu,
}

ROWS: dict[str, Check] = {
    "T01": _reported,
    "T02": _reported,
    "T03": lambda x: throughput.tokens_per_s(x["steps"], x["bs"], x["seq"], x["train_runtime"]),
    "T04": lambda x: formulas.epochs(x["steps"], x["bs"], x["samples"]),
    **{f"X-{step}": lambda x: throughput.speedup(x["before"], x["after"]) for step in (*_STEPS, "15.7-15.9")},
    **{f"D{ranks}-{name}": check for ranks in _RANKS for name, check in _SCALING.items()},
    "D-cost": lambda x: scaling.cost_factor(x["per_gpu"], x["base"]),
    "D-marg": lambda x: formulas.doubling_efficiency(x["n"], x["t1"], x["t2"]),
    "D-marg4": lambda x: formulas.doubling_efficiency(x.get("n", 2), x["t2"], x["t4"]),
    **{f"D-marg-z{ranks}": _doubling for ranks in _RANKS[1:]},
}
