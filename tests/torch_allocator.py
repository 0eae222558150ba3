"""A small allocator that records what `torch.cuda.memory._snapshot()` tells of torch's, and jobs that use it.

Sizes and stacks are those of a small training loop on no GPU; the order of actions is that of torch's allocator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
SEGMENT = 20 * MIB
TORCH = "/opt/env/lib/python3.11/site-packages/torch/"
TRAIN = "/home/me/train.py"

Frame = dict[str, Any]


def frame(file: str, line: int, name: str) -> Frame:
    """A frame as the allocator records it."""
    return {"filename": file, "line": line, "name": name}


_MAIN = frame(TRAIN, 60, "<module>")
PARAMETERS = [frame(TORCH + "nn/modules/module.py", 900, "_apply"), frame(TRAIN, 20, "build"), _MAIN]
FORWARD = [
    frame(TORCH + "nn/functional.py", 2000, "linear"),
    frame(TORCH + "nn/modules/linear.py", 120, "forward"),
    frame(TORCH + "nn/modules/module.py", 1500, "_call_impl"),
    frame(TRAIN, 31, "train"),
    _MAIN,
]
LOSS = [frame(TORCH + "nn/functional.py", 3000, "cross_entropy"), frame(TRAIN, 32, "train"), _MAIN]
BACKWARD: list[Frame] = []  # its threads run no Python
OPTIMIZER = [frame(TORCH + "optim/adamw.py", 90, "_init_group"), frame(TRAIN, 35, "train"), _MAIN]
EMPTIED = [frame(TORCH + "cuda/memory.py", 170, "empty_cache"), frame(TRAIN, 37, "train"), _MAIN]


C_INSIDE = [  # frames of C++ before, between and behind those of Python, as stacks="all" has them
    {"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
    {"filename": "memory_snapshot.cpp", "line": 0, "name": "torch::cuda::(anonymous namespace)::gather_with_cpp()"},
    {
        "filename": "CUDACachingAllocator.cpp",
        "line": 0,
        "name": "c10::cuda::CUDACachingAllocator::Native::malloc(void**)",
    },
    {
        "filename": "RegisterCUDA.cpp",
        "line": 0,
        "name": "at::(anonymous namespace)::wrapper_CUDA_mm(at::Tensor const&)",
    },
    {
        "filename": "/pytorch/torch/csrc/autograd/python_torch_functions.cpp",
        "line": 12,
        "name": "THPVariable_mm(_object*)",
    },
]
C_BETWEEN = {"filename": "/Python-3.11.7/Python/ceval.c", "line": 4769, "name": "_PyEval_EvalFrameDefault"}
C_OUTSIDE = [
    {"filename": "/usr/include/c++/13/thread", "line": 61, "name": "main"},
    {"filename": "??", "line": 0, "name": "_start"},
]
C_OF_ENGINE = [
    *C_INSIDE[:4],
    {"filename": "??", "line": 0, "name": "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)"},
    {"filename": "??", "line": 0, "name": "torch::autograd::Engine::evaluate_function(std::shared_ptr<GraphTask>&)"},
    {"filename": "??", "line": 0, "name": "start_thread"},
]


def with_c(frames: list[Frame]) -> list[Frame]:
    """A stack of Python as stacks="all" records it; that of a thread of the backward pass has frames of C++ alone."""
    if not frames:
        return list(C_OF_ENGINE)
    return [*C_INSIDE, *(each for frame in frames for each in (frame, C_BETWEEN)), *C_OUTSIDE]


def recorded(snapshot: dict[str, Any], context: str | None = "all", stacks: str = "python") -> dict[str, Any]:
    """The snapshot as `_record_memory_history(context=..., stacks=...)` has it.

    Without a context an entry has no "frames" at all. With "alloc" what is freed has the stack of its allocation, and
    with "state" only blocks in use have stacks.
    """
    made: dict[int, list[Frame]] = {}
    for trace in snapshot["device_traces"]:
        for entry in trace:
            frames = with_c(entry["frames"]) if stacks == "all" else entry["frames"]
            if entry["action"] in ("alloc", "segment_alloc", "segment_map"):
                made[entry["addr"]] = frames
            elif context == "alloc" and entry["action"] != "oom":
                frames = made.get(entry["addr"], [])
            entry["frames"] = frames
            if context not in ("all", "alloc"):
                del entry["frames"]
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            is_told = context is not None and block["state"] != "inactive"
            block["frames"] = (with_c(block["frames"]) if stacks == "all" else block["frames"]) if is_told else []
    return snapshot


@dataclass
class Allocator:
    """First fit in segments of 20 MiB, or of the size of what is larger."""

    limit: int
    expandable: bool = False
    pool: tuple[int, int] = (0, 0)
    segments: list[dict[str, Any]] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    at: int = 0x7F0000000000
    clock: int = 1_795_000_000_000_000

    def alloc(self, size: int, frames: list[Frame]) -> int:
        """The address; 0 where there is no room, which is recorded as an OOM."""
        block = self._room(size)
        if block is None:
            total = max(SEGMENT, size)
            if self.reserved() + total > self.limit:
                self._give_back(frames)
            if self.reserved() + total > self.limit:
                self._record("oom", 0, size, frames, device_free=self.limit - self.reserved())
                return 0
            block = self._segment(total, frames)
        rest = block["size"] - size
        block.update(size=size, requested_size=size - size % 512, state="active_allocated", frames=frames)
        if rest:
            of = next(s for s in self.segments if block in s["blocks"])
            of["blocks"].insert(of["blocks"].index(block) + 1, _free(block["address"] + size, rest))
        self._record("alloc", block["address"], block["requested_size"], frames)
        return int(block["address"])

    def free(self, address: int) -> None:
        """Give a block back to its segment."""
        for segment in self.segments:
            for block in segment["blocks"]:
                if block["address"] == address:
                    for action in ("free_requested", "free_completed"):
                        self._record(action, address, block["requested_size"], [])
                    block.update(state="inactive", requested_size=0, frames=[])
            segment["blocks"] = _joined(segment["blocks"])

    def empty_cache(self) -> None:
        """What torch.cuda.empty_cache() does."""
        self._give_back(EMPTIED)

    def reserved(self) -> int:
        """Bytes of all segments."""
        return sum(int(segment["total_size"]) for segment in self.segments)

    def snapshot(self, **settings: object) -> dict[str, Any]:
        """As `torch.cuda.memory._snapshot()` returns it."""
        for segment in self.segments:
            used = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
            segment["allocated_size"] = segment["active_size"] = sum(block["size"] for block in used)
        told = {"expandable_segments": False, "max_split_size": -1, **settings}
        return {"segments": self.segments, "device_traces": [self.trace], "allocator_settings": told}

    def _room(self, size: int) -> dict[str, Any] | None:
        for segment in self.segments:
            for block in segment["blocks"] if segment["segment_pool_id"] == self.pool else ():
                if block["state"] == "inactive" and block["size"] >= size:
                    return block
        return None

    def _segment(self, total: int, frames: list[Frame]) -> dict[str, Any]:
        block = _free(self.at, total)
        self.segments.append(
            {
                "device": 0,
                "address": self.at,
                "total_size": total,
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": self.pool,
                "is_expandable": self.expandable,
                "blocks": [block],
            }
        )
        self._record("segment_map" if self.expandable else "segment_alloc", self.at, total, frames)
        self.at += total + SEGMENT
        return block

    def _give_back(self, frames: list[Frame]) -> None:
        free = [s for s in self.segments if all(b["state"] == "inactive" for b in s["blocks"])]
        for segment in [s for s in free if s["segment_pool_id"] == (0, 0)]:
            self.segments.remove(segment)
            what = "segment_unmap" if self.expandable else "segment_free"
            self._record(what, segment["address"], segment["total_size"], frames)

    def _record(self, action: str, address: int, size: int, frames: list[Frame], **more: int) -> None:
        self.clock += 7
        where = {} if action == "oom" else {"addr": address}
        entry = {"action": action, **where, "size": size, "stream": 0, "time_us": self.clock, "frames": frames, **more}
        self.trace.append(entry)


def _free(address: int, size: int) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": 0, "state": "inactive", "frames": []}


def _joined(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    joined: list[dict[str, Any]] = []
    for block in blocks:
        if joined and joined[-1]["state"] == block["state"] == "inactive":
            joined[-1]["size"] += block["size"]
        else:
            joined.append(block)
    return joined


def training(allocator: Allocator, steps: int = 3, empties: bool = False) -> None:
    """A model of four layers, trained for some steps."""
    for _ in range(4):
        allocator.alloc(8 * MIB, PARAMETERS)
    states = False
    for _ in range(steps):
        kept = [allocator.alloc(4 * MIB, FORWARD) for _ in range(8)]
        kept.append(allocator.alloc(2 * MIB, LOSS))
        gradients: list[int] = []
        for address in reversed(kept):
            if len(gradients) < 4:
                gradients.append(allocator.alloc(8 * MIB, BACKWARD))
            allocator.free(address)
        if not states:
            states = [allocator.alloc(8 * MIB, OPTIMIZER) for _ in range(8)] != []
        for address in gradients:
            allocator.free(address)
        if empties:
            allocator.empty_cache()


def out_of_memory() -> Allocator:
    """An OOM with enough memory free, in pieces: every second buffer of 6 MiB was freed."""
    allocator = Allocator(limit=320 * MIB)
    training(allocator)
    pieces = [allocator.alloc(6 * MIB, FORWARD) for _ in range(24)]
    for address in pieces[::2]:
        allocator.free(address)
    allocator.alloc(60 * MIB, LOSS)
    return allocator


def healthy() -> Allocator:
    """The same training with room."""
    allocator = Allocator(limit=4000 * MIB)
    training(allocator)
    return allocator


def emptied() -> Allocator:
    """The same, which empties the cache in every step."""
    allocator = Allocator(limit=4000 * MIB)
    training(allocator, steps=5, empties=True)
    return allocator
