"""Memory snapshots of others' programs: stacks with frames of C++ or none, caches that are emptied, OOMs in pieces."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch_allocator
from click.testing import CliRunner
from judged_snapshots import CALL, LAYER, LINEAR, LLAMA, LOGITS, PACKAGES, TOP, TRAINER, USERS, judge, names, told
from torch_allocator import (
    FORWARD,
    LOSS,
    MIB,
    OPTIMIZER,
    TORCH,
    Allocator,
    Frame,
    emptied,
    frame,
    healthy,
    out_of_memory,
    recorded,
    training,
)

from diagnose.cli import main
from diagnose.commands.memory.answer import MemoryAnswer
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import read

STRANGER = Path(__file__).with_name("memory-python-and-cpp-frames.pickle")


# The user's line, whatever frames of C++ stand before it.


def test_lines_of_a_stranger_are_those_of_the_job() -> None:
    lines = judged(read(STRANGER)).devices[0].lines_at_peak

    assert {row.file for row in lines} == {"/job/main.py", "/job/model.py"}
    assert {row.line for row in lines if row.category == "gradients"} == {125}  # that calls backward


def test_stacks_of_c_and_of_python_alone_tell_the_same_lines(tmp_path: Path) -> None:
    """Only what the backward pass allocates is told better: by the frames of the engine."""
    python = judge(tmp_path, recorded(healthy().snapshot())).devices[0]
    both = judge(tmp_path, recorded(healthy().snapshot(), stacks="all")).devices[0]

    def lines(of: Any) -> list[tuple[str, int, int]]:
        return [(row.file, row.line, row.bytes) for row in of.lines_at_peak]

    assert lines(python) == lines(both)
    assert {row.category for row in python.at_peak} - {row.category for row in both.at_peak} == {"no stack"}
    assert {row.category for row in both.at_peak} - {row.category for row in python.at_peak} == {"gradients"}


BACKWARD_CALL = [
    frame(TORCH + "autograd/__init__.py", 354, "backward"),
    frame(TORCH + "_tensor.py", 630, "backward"),
    *USERS,
]
FIRST_GRADIENT = [frame(TORCH + "autograd/__init__.py", 226, "_make_grads"), *BACKWARD_CALL]
OWN_BACKWARD = [frame("/home/me/ops.py", 12, "backward"), frame(TORCH + "autograd/function.py", 311, "apply")]
COMPILED = [frame("/tmp/torchinductor_me/ab/c.py", 9, "call"), frame(TORCH + "autograd/function.py", 311, "apply")]


@pytest.mark.parametrize("stacks", ["python", "all"])
def test_gradients_are_of_the_line_that_called_backward(stacks: str, tmp_path: Path) -> None:
    """Its threads run no Python but what torch calls; what comes after the next stack of the job is not theirs."""
    allocator = Allocator(limit=400 * MIB)
    for size, frames in (
        (1, FIRST_GRADIENT), (8, []), (4, OWN_BACKWARD), (2, COMPILED), (16, []), (5, OPTIMIZER), (3, [])
    ):  # fmt: skip
        allocator.alloc(size * MIB, frames)

    rows = judge(tmp_path, recorded(allocator.snapshot(), stacks=stacks)).devices[0].lines_at_peak

    lines = {(row.file, row.line) for row in rows if row.category == "gradients" and row.file}
    assert lines == {("/home/me/train.py", 31), ("/home/me/ops.py", 12)}
    assert sum(row.bytes for row in rows if row.line == 31) == (1 + 8 + 2 + 16) * MIB
    assert [row.bytes for row in rows if not row.file] == [3 * MIB]


def test_what_an_optimizer_calls_as_its_closure_is_not_its_own(tmp_path: Path) -> None:
    """Lightning runs the forward and the backward pass inside `optimizer.step`."""
    step = [frame(TORCH + "optim/adamw.py", 220, "step"), *USERS]
    closure = [frame(PACKAGES + "lightning/pytorch/loops/optimization/automatic.py", 130, "closure"), *step]
    allocator = Allocator(limit=400 * MIB)
    for size, frames in ((9, [*LOGITS, *closure]), (5, [*FIRST_GRADIENT[:3], *closure]), (3, OPTIMIZER)):
        allocator.alloc(size * MIB, frames)

    at_peak = judge(tmp_path, allocator.snapshot()).devices[0].at_peak

    assert [(row.category, row.bytes // MIB) for row in at_peak] == [
        ("activations", 9), ("gradients", 5), ("optimizer", 3),
    ]  # fmt: skip


def test_what_a_compiled_model_allocates_is_of_the_line_that_it_was_written_in(tmp_path: Path) -> None:
    """torch adds the lines of the model to the frame of the file that it has written."""
    compiled = frame("/tmp/torchinductor_me/ab/cabfgd6yr4z7bdmc7dk5ni5f6hldqw3nqjnsf3dwpnwhtcnrbwgp.py", 90, "call")
    allocator = Allocator(limit=400 * MIB)
    allocator.alloc(4 * MIB, [compiled, frame(LLAMA, 193, "eager_attention_forward"), *LAYER, *USERS])

    (row,) = judge(tmp_path, allocator.snapshot()).devices[0].lines_at_peak

    assert (row.line, row.below) == (31, "eager_attention_forward (modeling_llama.py:193), attention scores")


@pytest.mark.parametrize(
    "generated",
    [
        frame("/tmp/torchinductor_me/ab/cabfgd6yr4z7bdmc7dk5ni5f6hldqw3nqjnsf3dwpnwhtcnrbwgp.py", 90, "call"),
        frame("/cache/ab/cabfgd6yr4z7bdmc7dk5ni5f6hldqw3nqjnsf3dwpnwhtcnrbwgp.py", 90, "call"),
        frame("<eval_with_key>.12", 4, "forward"),
        frame("/opt/pytorch/pytorch/torch/nn/functional.py", 4, "linear"),
        frame("/usr/include/c++/13/functional", 4, "std::function<void ()>::operator()() const"),
        frame("/home/me/ext/kernels.cu", 40, "launch"),
    ],
)
def test_what_is_no_line_of_the_user_is_passed_over(generated: Frame, tmp_path: Path) -> None:
    allocator = Allocator(limit=100 * MIB)
    allocator.alloc(4 * MIB, [generated, *USERS])

    (row,) = judge(tmp_path, allocator.snapshot()).devices[0].lines_at_peak

    assert (row.file, row.line) == ("/home/me/train.py", 31)


def test_what_one_line_allocates_is_told_apart_by_what_it_called(tmp_path: Path) -> None:
    eager, mlp = frame(LLAMA, 193, "eager_attention_forward"), frame(LLAMA, 164, "forward")
    attends, feeds = frame(LLAMA, 300, "forward"), frame(LLAMA, 310, "forward")
    silu = [frame(TORCH + "nn/functional.py", 2300, "silu"), mlp, CALL, feeds]
    allocator = Allocator(limit=400 * MIB)
    for size, stack in (
        (9, [eager, frame(LLAMA, 250, "forward"), CALL, attends, *LAYER]),
        (7, [LINEAR, CALL, mlp, CALL, feeds, *LAYER]),
        (5, [*silu, *LAYER]),
        (3, [LINEAR, CALL, *TOP]),
    ):
        allocator.alloc(size * MIB, [*stack, *USERS])

    rows = judge(tmp_path, allocator.snapshot()).devices[0].lines_at_peak

    assert {(row.file, row.line) for row in rows} == {("/home/me/train.py", 31)}
    assert [row.below for row in rows] == [
        "eager_attention_forward (modeling_llama.py:193), attention scores",
        "forward (modeling_llama.py:164), linear, MLP",
        "forward (modeling_llama.py:164), silu, MLP",
        "forward (modeling_llama.py:460), linear, logits",
    ]
    assert "24.0 MiB 100 % 4 activations at /home/me/train.py:31 in main" in told(tmp_path)


# A cache that is emptied again and again, with stacks or without.


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("context", ["all", "alloc", "state", None])
def test_an_emptied_cache_is_found_whatever_was_recorded(context: str | None, expandable: bool, tmp_path: Path) -> None:
    allocator = Allocator(limit=4000 * MIB, expandable=expandable)
    training(allocator, steps=5, empties=True)

    of = judge(tmp_path, recorded(allocator.snapshot(), context))

    assert names(of) == ["empty-cache-in-the-loop"]
    assert (of.devices[0].empty_cache_calls, of.devices[0].given_back_by_unknown) == (5, 0)
    assert ("train.py:37" in of.findings[0].says) == (context == "all")
    assert not any("who gave" in line for line in of.unknown)


def test_a_cache_that_the_trainer_empties_is_set_by_its_argument(tmp_path: Path) -> None:
    for line, name, setting in (
        (2087, "training_step", "torch_empty_cache_steps"),
        (3045, "evaluation_loop", "eval_accumulation_steps"),
    ):
        allocator = emptied()
        for entry in allocator.trace:
            if entry["frames"] == torch_allocator.EMPTIED:
                entry["frames"] = [torch_allocator.EMPTIED[0], frame(TRAINER, line, name), *USERS]

        assert setting in judge(tmp_path, allocator.snapshot()).findings[0].do


def full(context: str | None) -> dict[str, Any]:
    """Memory that is all but full: what is cached goes back so that the next request finds room."""
    allocator = Allocator(limit=100 * MIB)
    for at in range(4):
        allocator.free(allocator.alloc((60 + 8 * at) * MIB, FORWARD))
    return recorded(allocator.snapshot(), context)


def test_what_the_allocator_gave_back_itself_is_no_call_of_the_job(tmp_path: Path) -> None:
    of = judge(tmp_path, full("all"))

    assert names(of) == ["allocator-retries"]
    assert (of.devices[0].retries, of.devices[0].empty_cache_calls) == (3, 0)


def test_what_fits_both_is_unknown_and_never_printed_as_no(tmp_path: Path) -> None:
    of = judge(tmp_path, full(None))
    text = told(tmp_path)

    assert (of.devices[0].retries, of.devices[0].empty_cache_calls, of.devices[0].given_back_by_unknown) == (
        None,
        None,
        3,
    )
    assert any(line.startswith("who gave segments back 3 times") for line in of.unknown)
    assert names(of) == ["segments-given-back"]
    assert "segments were given back 3 times, by whom is unknown" in text
    assert "no emptied cache" not in text
    assert "0 times" not in text


def test_without_a_history_nothing_is_denied(tmp_path: Path) -> None:
    judge(tmp_path, {**healthy().snapshot(), "device_traces": [[]]})

    assert "without a history nobody can see whether memory ran out or the cache was emptied" in told(tmp_path)


def test_without_segments_memory_is_unknown_or_all_of_it_was_given_back(tmp_path: Path) -> None:
    allocator = Allocator(limit=100 * MIB)
    allocator.free(allocator.alloc(4 * MIB, FORWARD))
    allocator.empty_cache()
    assert not any(line.startswith("what is in use") for line in judge(tmp_path, allocator.snapshot()).unknown)

    of = judge(tmp_path, {"segments": [], "device_traces": [[]]})

    assert any(line.startswith("what is in use and reserved") for line in of.unknown)
    assert "0 B" not in told(tmp_path)


def test_frees_without_stacks_are_no_history_without_stacks(tmp_path: Path) -> None:
    allocator = healthy()
    allocator.empty_cache()
    for entry in allocator.trace:
        if entry["action"] != "alloc":
            del entry["frames"]

    of = judge(tmp_path, allocator.snapshot())

    assert not any("no stacks" in line or "who gave" in line for line in of.unknown)
    assert (of.devices[0].retries, of.devices[0].empty_cache_calls) == (0, 1)


@pytest.mark.parametrize(("context", "known"), [("all", 120), ("alloc", 120), ("state", 96), (None, 0)])
def test_a_history_without_stacks_has_those_of_blocks_in_use(context: str | None, known: int, tmp_path: Path) -> None:
    """At the end 96 MiB of parameters and of the optimizer are in use; the peak has more, with 32 MiB of gradients."""
    of = judge(tmp_path, recorded(healthy().snapshot(), context))
    lines = of.devices[0].lines_at_peak

    assert sum(row.bytes for row in lines if row.file) == known * MIB
    assert any("(context=" in line for line in of.unknown) == (context in ("state", None))


# Fragmentation, where it explains the failure.


@pytest.mark.parametrize("context", ["all", "alloc", "state", None])
def test_fragmentation_that_explains_an_oom_comes_first(context: str | None, tmp_path: Path) -> None:
    of = judge(tmp_path, recorded(out_of_memory().snapshot(), context))

    assert names(of)[:2] == ["fragmentation", "out-of-memory"]
    assert "60.0 MiB were wanted, and 112.0 MiB of 280.0 MiB reserved were free" in of.findings[0].says
    assert "expandable_segments:True" in of.findings[0].do
    assert "max_split_size_mb" in of.findings[0].do


def test_free_memory_of_cuda_graphs_is_not_free_for_others(tmp_path: Path) -> None:
    """A graph's pool of 100 MiB is free, but no request can have it: memory is full, not in pieces."""
    allocator = Allocator(limit=200 * MIB)
    allocator.pool = (0, 1)
    captured = allocator.alloc(100 * MIB, FORWARD)
    allocator.pool = (0, 0)
    allocator.free(captured)
    for _ in range(4):
        allocator.alloc(20 * MIB, FORWARD)
    allocator.alloc(60 * MIB, LOSS)

    of = judge(tmp_path, allocator.snapshot())

    assert names(of) == ["out-of-memory"]
    assert (of.devices[0].private_pool_bytes, of.devices[0].private_pool_free_bytes) == (100 * MIB, 100 * MIB)
    assert "100.0 MiB in private pools of CUDA graphs" in of.findings[0].says
    assert "private pools of CUDA graphs: 100.0 MiB reserved" in told(tmp_path)


# Categories over time, for the page.


@pytest.mark.parametrize("stacks", ["python", "all"])
@pytest.mark.parametrize("first", [0, 40])
def test_categories_over_time_add_up_to_what_was_in_use(first: int, stacks: str, tmp_path: Path) -> None:
    """Also in a history that begins in the middle."""
    allocator = Allocator(limit=4000 * MIB)
    training(allocator, steps=40)
    allocator.trace = allocator.trace[first:]

    (device,) = judge(tmp_path, recorded(allocator.snapshot(), stacks=stacks)).devices
    curve = device.usage

    assert curve is not None
    assert tuple(map(sum, zip(*(row.bytes for row in curve.by_category), strict=True))) == curve.allocated_bytes
    assert len(curve.allocated_bytes) <= 240
    at = curve.allocated_bytes.index(device.peak_bytes or 0)
    assert {row.category: row.bytes[at] for row in curve.by_category if row.bytes[at]} == {
        row.category: row.bytes for row in device.at_peak
    }
    assert {"parameters", "activations", "optimizer"} <= {row.category for row in curve.by_category}


# Old formats.


def test_a_snapshot_from_before_frames_and_addresses_is_still_read(tmp_path: Path) -> None:
    asked = {"addr": 4096, "real_size": 6 * MIB, "frames": [frame("/home/me/a.py", 3, "f")]}
    block = {"size": 6 * MIB, "state": "active_allocated", "history": [asked]}
    old = {
        "segments": [{"total_size": 20 * MIB, "stream": 0, "blocks": [block, {"size": 14 * MIB, "state": "inactive"}]}]
    }
    oom = {"action": "oom", "device_free": MIB, "size": 15 * MIB, "stream": 0}

    of = judge(tmp_path, {**old, "device_traces": [[oom]]})

    assert names(of) == ["out-of-memory"]
    assert any("how the free memory lay" in line for line in of.unknown)


@pytest.mark.parametrize("make", [lambda: full(None), lambda: out_of_memory().snapshot(), lambda: full("all")])
def test_the_answer_as_json_follows_its_schema(make: Callable[[], dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(make()))

    done = CliRunner().invoke(main, ["memory", str(tmp_path / "snapshot.pickle"), "--json"])

    jsonschema.validate(json.loads(done.output), MemoryAnswer.schema())
