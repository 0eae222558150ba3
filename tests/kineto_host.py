"""The host's side of a trace under construction: its clock, and the ranges, operators and threads that advance it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kineto_rows import Row, ns_of, row_of, set_end

BF16 = "c10::BFloat16"
START_NS = 2_629_566_610_000_000_000 // 1000
LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"
Streams = dict[int, list[Row]]


class Host:
    """One process: what its threads do, one after another on one clock."""

    def __init__(self, rank: int, first_step: int, start_us: float) -> None:
        self.rank = rank
        self.now = START_NS + ns_of(start_us)  # the host clock
        self.pid = 4000 + rank
        self.tid = self.pid
        self.next_step = first_step
        self._begin = self.now
        self._events: list[Row] = []
        self._open: list[tuple[int, Streams]] = []  # (tid, what was launched under it) of the open annotations
        self._annotations: list[tuple[str, int, Streams]] = []  # (name, External id, what was launched under it)
        self._ops: list[tuple[int, int]] = []  # (tid, External id) of the open cpu_ops
        self._ids = 0

    def host(self, us: float) -> None:
        """Let the host do something the trace does not show."""
        self.now += ns_of(us)

    def event(self, cat: str, name: str, us: float, **args: Any) -> Row:
        """Any host event of any category that lasts `us`; its children, if any, are not inside it."""
        row = self._row(cat, name, self.now, self.now + ns_of(us), args)
        self.now += ns_of(us)
        return row

    def cpu_op(self, name: str, us: float, dims: Any = None, dtype: str = BF16) -> None:
        """An operator that launches nothing."""
        with self.inside(name, dims, dtype):
            self.host(us)

    @contextmanager
    def inside(self, name: str, dims: Any = None, dtype: str = BF16, args: Row | None = None) -> Iterator[None]:
        """An operator around what the block does."""
        self._ids += 1
        begin, number = self.now, self._ids
        shapes = {} if dims is None else {"Input Dims": dims, "Input type": [dtype if d else "Scalar" for d in dims]}
        row = self._row("cpu_op", name, begin, begin, {"External id": number, **shapes, **(args or {})})
        self._ops.append((self.tid, number))
        yield
        self._ops.pop()
        set_end(row, self.now)

    @contextmanager
    def annotation(self, name: str, us: float = 0, ms: float = 0) -> Iterator[None]:
        """A record_function around the block, which the host first spends `us` + `ms` in."""
        self._ids += 1
        args = {"External id": self._ids}
        row = self._row("user_annotation", name, self.now, self.now, args)
        launched: Streams = {}
        self._annotations.append((name, self._ids, launched))
        self._open.append((self.tid, launched))
        self.now += ns_of(us + 1000 * ms)
        yield
        self._open.pop()
        set_end(row, self.now)

    def step(self) -> AbstractContextManager[None]:
        """The next ProfilerStep."""
        self.next_step += 1
        return self.annotation(f"ProfilerStep#{self.next_step - 1}")

    def loader(self, us: float = 0, ms: float = 0, workers: int = 0) -> None:
        """The DataLoader's next(), of the loader without (`workers=0`) or with worker processes."""
        with self.annotation(LOADER.format("MultiProcessing" if workers else "SingleProcess"), us, ms):
            pass

    def optimizer(self, name: str = "AdamW") -> AbstractContextManager[None]:
        """The optimizer's step."""
        return self.annotation(f"Optimizer.step#{name}.step")

    @contextmanager
    def thread(self, tid: int) -> Iterator[None]:
        """Do the block on another thread; the host clock is one, so the first thread waits."""
        before, self.tid = self.tid, tid
        yield
        self.tid = before

    @contextmanager
    def backward(self, name: str = "autograd::engine::evaluate_function: MmBackward0") -> Iterator[None]:
        """Operators of the backward pass, on the autograd thread."""
        with self.thread(self.pid + 18), self.inside(name):
            yield

    def gc(self, us: float) -> None:
        """A garbage collection."""
        self.event("python_function", "Python GC", us)

    def _row(self, cat: str, name: str, begin: int, end: int, args: dict[str, Any]) -> Row:
        self._events.append(row_of(cat, name, begin, end, self.pid, self.tid, args))
        return self._events[-1]
