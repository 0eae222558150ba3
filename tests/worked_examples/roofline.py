"""Rows R and K: the roofline, memory traffic, and the figures of Kineto's events."""

from diagnose.formulas import roofline
from diagnose.formulas.kineto import blocks_per_sm
from worked_examples import formulas, kineto, products, traffic
from worked_examples.common import GIB, GIGA, US, Check, Inputs


def _gemm(x: Inputs) -> tuple[int, int, float]:
    """FLOPs, bytes and FLOP/B of a matrix product."""
    flops = products.gemm_flops(x["M"], x["N"], x["K"])
    moved_bytes = products.gemm_bytes(x["M"], x["N"], x["K"], x["itemsize"])
    return flops, moved_bytes, formulas.intensity(flops, moved_bytes)


def _lower_bound_us(x: Inputs) -> float:
    flops, moved_bytes, _ = _gemm(x)
    return US * products.lower_bound_s(flops, moved_bytes, x["peak"], x["bw"])


def _ridge(x: Inputs) -> float:
    return roofline.ridge(x["peak"], x["bw"])


def _hbm_gbs(x: Inputs) -> float:
    return roofline.hbm_bytes_per_s(x["memory_clock_mhz"] * 1e6, x["bus_bits"]) / GIGA


def _optimizer(x: Inputs) -> int:
    return traffic.optimizer_bytes(x["params"], x["accesses"], x["itemsize"])


def _chunks(x: Inputs) -> int:
    return traffic.loss_chunks(x["B"], x["T"], x["V"], x["H"])


def _annotation(x: Inputs) -> dict[str, float]:
    ts_us, dur_us = kineto.annotation_span_us(x["first_us"], x["last_end_us"])
    return {"ts": ts_us, "dur": dur_us}


ROWS: dict[str, Check] = {
    **{f"R0{i}": _ridge for i in (1, 2, 3)},
    **{f"R0{i}": _hbm_gbs for i in (4, 5, 6, 7, 8)},
    "R09": lambda x: products.score_intensity(x["d_head"]),
    **{f"R{i}": _gemm for i in (10, 11, 12, 13)},
    "R14": _lower_bound_us,
    "R15": lambda x: products.sdpa_flops(x["B"], x["H"], x["Tq"], x["Tk"], x["d"]),
    "R16": lambda x: products.sdpa_backward_flops(x["B"], x["H"], x["Tq"], x["Tk"], x["d"]),
    "R17": lambda x: products.sdpa_model_flops(x["B"], x["H"], x["T"], x["T"], x["d"]),
    "R18": lambda x: traffic.eager_attention_bytes(x["B"], x["H"], x["T"], x["L"]),
    "R19": lambda x: traffic.logit_chain_bytes(x["B"], x["T"], x["V"]),
    "R20": lambda x: formulas.shifted_logits_bytes(x["B"], x["T"], x["V"]) / GIB,
    "R21": _optimizer,
    "R22": _optimizer,
    "R23": _chunks,
    "R24": _chunks,
    "R25": lambda x: products.gemm_intensity(x["M"], x["N"], x["K"], x["itemsize"]),
    "K01": lambda x: kineto.base_time_ns(x["unix_s"]),
    "K02": lambda x: kineto.absolute_ns(x["base"], x["ts_us"]),
    "K03": lambda x: kineto.bytes_per_ns(x["bytes"], x["dur_us"]),
    "K04": lambda x: blocks_per_sm(x["grid"], x["numSms"]),
    "K05": lambda x: kineto.warps_per_sm(x["grid"], x["block"], x["numSms"]),
    "K06": _annotation,
}
