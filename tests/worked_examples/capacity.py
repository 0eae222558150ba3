"""Rows B, E and Y: the input pipeline, energy and cost, and memory."""

from diagnose.formulas import data_pipeline, energy
from diagnose.formulas.named_models import NAMED_MODELS
from worked_examples import formulas
from worked_examples.common import GIB, GIGA, LLAMA, MS, PERCENT, Check, Inputs

_PCIE3_BYTES_PER_S = 15.75e9


def _saved_percent(x: Inputs) -> float:
    return PERCENT * formulas.saved_share(x["before"], x["after"])


def _fed_percent(x: Inputs) -> float:
    return PERCENT * formulas.fed_share(x["R_pipe"], x["R_comp"])


def _workers(x: Inputs) -> int:
    return data_pipeline.workers_needed(x["t_batch_ms"], x["t_step_ms"])


def _kwh(x: Inputs) -> float:
    return energy.energy_kwh(x["N_gpu"], x["W_gpu"], x["N_host"], x["W_host"], x["hours"])


def _tonnes(x: Inputs) -> float:
    return energy.emissions_kg(x["kwh"], x["intensity"]) / 1000


def _training_days(x: Inputs) -> float:
    return formulas.training_s(x["O"], x["N"], x["peak"], x["mfu"]) / formulas.SECONDS_PER_DAY


def _years(x: Inputs) -> float:
    return formulas.training_s(x["O"], 1, x["rate"], 1.0) / formulas.SECONDS_PER_YEAR


def _energy_cost(x: Inputs) -> float:
    return formulas.energy_cost(x["kwh"], x["price"])


def _cost(x: Inputs) -> float:
    return formulas.cost_of_tokens(GIGA, x["price_per_gpu_h"], x["n"], x["thr_total"])


def _state_bytes(x: Inputs, bytes_per_parameter: int) -> float:
    return formulas.training_state_bytes(x.get("P", NAMED_MODELS[LLAMA].parameters), bytes_per_parameter)


ROWS: dict[str, Check] = {
    "B01": lambda x: formulas.system_rate(x["R_pipe"], x["R_comp"]),
    "B02": _fed_percent,
    "B03": _fed_percent,
    "B04": lambda x: MS * formulas.tokenise_s(x["B"], x["T"], x["rate"]),
    "B05": lambda x: formulas.batch_bytes(x["B"], x["T"]),
    "B06": lambda x: MS * formulas.copy_s(x["bytes"], x.get("bw", _PCIE3_BYTES_PER_S)),
    "B07": lambda x: data_pipeline.shared_s(x["t"], x["workers"]),
    "B08": lambda x: formulas.samples_per_s(x["B"], x["step_ms"] / MS),
    "B09": _saved_percent,
    "B10": _workers,
    "B11": _workers,
    "B12": lambda x: formulas.workers_speedup(x["t_gpu_ms"], x["wait_ms"], x["t_batch_ms"], x["workers"]),
    "E01": lambda x: formulas.training_flops(x["P"], x["D"]),
    "E02": _training_days,
    "E03": _kwh,
    "E04": lambda x: formulas.kwh_at_utilisation(x["kwh"], x.get("factor", 2)),
    "E05": _tonnes,
    "E06": _energy_cost,
    "E07": _energy_cost,
    "E08": _tonnes,
    "E09": _tonnes,
    "E10": _years,
    "E11": lambda x: MS * formulas.energy_per_token_j(x["tdp_w"], x["tok_s"], x.get("n", 1)),
    "E12": _cost,
    "E13": _cost,
    "Y01": _saved_percent,
    "Y02": lambda x: _state_bytes(x, formulas.MIXED_ADAMW_BYTES) / GIGA,
    "Y03": lambda x: _state_bytes(x, formulas.BF16_ADAMW_BYTES) / GIB,
    "Y04": lambda x: _state_bytes(x, formulas.FP32_ADAMW_BYTES) / GIB,
    "Y05": lambda x: formulas.kept_scores_bytes(x["B"], x["H"], x["T"], x["L"], x["bytes"]) / GIB,
}
