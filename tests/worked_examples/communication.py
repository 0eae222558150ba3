"""Rows C, W and G: collectives, the accounting of a step, and stragglers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from diagnose import intervals as iv
from diagnose.formulas import collectives
from diagnose.formulas.accounting import overlapped_share
from worked_examples import formulas, straggler
from worked_examples.accounting import step_parts_ns
from worked_examples.common import GIGA, MS, PERCENT, US, Check, Inputs


def _set(pairs: Sequence[Sequence[int]]) -> iv.Intervals:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return iv.intervals(table[:, 0], table[:, 1])


def _bus_gbs(kind: str) -> Check:
    return lambda x: collectives.bus_bytes_per_s(kind, x["S"], x["t_us"] / US, x["n"]) / GIGA


def _ring_s(x: Inputs) -> float:
    return collectives.transfer_s("allreduce", x["S"], x["n"], x["BW"])


def _matched(x: Inputs) -> dict[str, Any]:
    starts, ends = np.array(x["starts"]), np.array(x["ends"])
    return {
        "transfer": collectives.transfer_by_start(starts, ends).tolist(),
        "wait": collectives.waiting_by_start(starts).tolist(),
    }


def _alpha_beta_us(x: Inputs) -> float:
    wire = x["f"] * x["S"]
    return US * collectives.latency_and_wire_s(x["alpha_us"] / US, wire, x["B"])


def _step_parts(x: Inputs) -> dict[str, Any]:
    return step_parts_ns(iv.one(0, x["T"]), _set(x["compute"]), _set(x["comm"]), _set(x["memcpy"]))


ROWS: dict[str, Check] = {
    "C01": lambda x: collectives.wire_bytes("allreduce", x["S"], x["n"]),
    "C02": _ring_s,
    "C03": lambda x: formulas.is_network_wall(x["T_comm"], x["T_comp"]),
    "C04": lambda x: formulas.efficiency_without_overlap(x["T_comp"], x["T_comm"]),
    "C05": lambda x: MS * _ring_s(x),
    "C06": _bus_gbs("allreduce"),
    "C07": _bus_gbs("allgather"),
    "C08": _bus_gbs("alltoall"),
    "C09": _bus_gbs("broadcast"),
    "C10": lambda x: collectives.bus_factor("allreduce", x["n"]),
    "C11": lambda x: formulas.gradient_bytes(x["params"], x["itemsize"]),
    "C12": lambda x: collectives.wire_bytes("allreduce", x["G"], x["n"]),
    "C13": lambda x: formulas.ddp_buckets(x["G"], x["first"], x["cap"]),
    "C14": lambda x: formulas.gradient_bytes(x["V"] * x["h"], x["itemsize"]),
    "C15": _matched,
    "C16": lambda x: collectives.transfer_by_duration(np.array(x["durs"])).item(),
    "C17": _alpha_beta_us,
    "C18": lambda x: formulas.exposed_ns(_set(x["comm"]), _set(x["compute"])),
    "C19": lambda x: PERCENT * overlapped_share(_set(x["comm"]), _set(x["compute"])),
    "C20": lambda x: collectives.nic_rate(x["busbw"], x["k"], x["n"]),
    "C21": lambda x: MS * formulas.node_boundary_s(x["G"], x["m"], x["nic"]),
    "W01": _step_parts,
    "G01": lambda x: min(straggler.relative_scores(x["durations"])),
    "G02": lambda x: straggler.slowdown(x["T_actual"], x["T_ideal"]),
    "G03": lambda x: straggler.removed_contribution(x["T"], x["T_rem"], x["T_ideal"]),
    "G04": lambda x: straggler.change_share(x["mL"], x["mR"]),
}
