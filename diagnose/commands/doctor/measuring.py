"""Measure what this machine reaches, in a process of its own that imports torch; its parts are `probes/peaks.py`."""

import json
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnose.errors import UserError
from diagnose.formulas.model import ModelShape
from diagnose.hardware.measured import MeasuredMachine, machine_in

ENDS_WITHIN_S = 100.0
TOKENS = {"cuda": 4096, "cpu": 128}
MOST_FLOPS = {"cuda": 2e13, "cpu": 6e9}  # of a product: a larger one takes too long
_SQUARES = {"cuda": (2048, 4096, 8192), "cpu": (512, 1024)}
_NO_GPU = "torch sees no GPU here"
_ONE_GPU = "torch sees one GPU here"
_OF_GPU = ("products", "memory copy", "memory read", "pinned to device", "all-reduce")
_LATE = f"the measurement was ended after {ENDS_WITHIN_S:.0f} s"

Product = tuple[str, int, int, int]  # its name, and m, n, k


def measured(name: str, model: ModelShape | None, folder: Path, env: Mapping[str, str]) -> MeasuredMachine:
    """The rates of this machine: of the products of a model of that `name`, else of squares.

    Raises:
        UserError: nothing could be measured.
    """
    products = {on: [one for one in products_of(model, on) if _is_short(one, on)] for on in TOKENS}
    about, rates, why = _run({"products": products, "folder": str(folder)}, env)
    if about is None:
        raise UserError("nothing can be measured", why=why, do="install torch in this environment")
    missing = [{"name": name, "on": "cuda", "unit": unit, "because": why} for name, unit, why in _of_gpu(about, rates)]
    missing += [_too_long(one, "cpu") for one in products_of(model, "cpu") if not _is_short(one, "cpu")]
    late = [{"name": "the rest", "on": "cpu", "unit": "bytes_per_s", "because": why}] if why else []
    told = {**about, "at": time.strftime("%Y-%m-%d"), "host": platform.node()[:200], "model": name, "schema_version": 1}
    machine = machine_in(told | {"rates": [*rates, *missing, *late]})
    if machine is None:
        raise UserError("nothing can be measured", why="the program that measures gave no usable rates")
    return machine


def products_of(model: ModelShape | None, on: str) -> Iterator[Product]:
    """Products of a step on this device: of the model's matrices with so many tokens, else of squares."""
    if model is None:
        yield from (("square", side, side, side) for side in _SQUARES[on])
        return
    width, tokens = model.query_width, TOKENS[on]
    inner, each = (model.expert_ffn, _tokens_of_expert(model, tokens)) if model.mixture_layers else (model.ffn, tokens)
    attention = [] if model.latent_rank else [
        ("queries, keys, values", tokens, width + 2 * model.kv_heads * model.head_dim, model.hidden),
        ("attention output", tokens, model.hidden, width),
    ]  # fmt: skip
    fed = [("feed-forward, in", each, inner, model.hidden), ("feed-forward, out", each, model.hidden, inner)]
    head = [("head", tokens, model.vocab, model.hidden)] if model.lm_head else []
    yield from (*attention, *fed, *head)


def _is_short(product: Product, on: str) -> bool:
    return 2.0 * product[1] * product[2] * product[3] <= MOST_FLOPS[on]


def _too_long(product: Product, on: str) -> dict[str, Any]:
    name, *size = product
    because = f"more than {MOST_FLOPS[on]:.0g} FLOP: it would take too long"
    return {"name": name, "on": on, "unit": "flops_per_s", "because": because, "precision": "bf16", "size": size}


def _tokens_of_expert(model: ModelShape, tokens: int) -> int:
    return max(tokens * model.experts_per_token // model.experts, 1)


def _of_gpu(about: Mapping[str, Any], rates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Names, units and reasons of rates of GPUs that cannot be measured here."""
    for name in _OF_GPU:
        unit = "flops_per_s" if name == "products" else "bytes_per_s"
        if not about["device"]:
            yield name, unit, _NO_GPU
        elif name == "all-reduce" and any("gloo" in rate["name"] for rate in rates):
            yield name, unit, _ONE_GPU


def _run(request: Mapping[str, Any], env: Mapping[str, str]) -> tuple[dict[str, Any] | None, list[dict[str, Any]], str]:
    """The first line of the program, the rates that it printed until its time was over, and why there are no more."""
    words = [sys.executable, "-m", "diagnose.probes.peaks", json.dumps(request)]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(words, env=dict(env), stdout=pipe, stderr=pipe, text=True) as process:
            ends = threading.Timer(ENDS_WITHIN_S, process.kill)
            ends.start()
            try:
                out, errors = process.communicate()
            finally:
                ends.cancel()
    except OSError as error:
        return None, [], error.strerror or str(error)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    said = (errors.strip().splitlines() or [f"the program ended with {process.returncode}"])[-1][:200]
    why = "" if process.returncode == 0 else _LATE if process.returncode < 0 else said
    return (lines[0], lines[1:], why) if lines else (None, [], why or said)
