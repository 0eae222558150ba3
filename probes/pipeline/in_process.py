"""Load in this process, stage by stage: time, CPU time, bytes read, and the Python code that runs meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..facts.loader_work import HERE, LoaderWork, of_threads, ready_ns
from ..stacks.sampling import StackSampler
from .contents import Lengths, bytes_of
from .files_read import ReadCounters
from .source import BatchSource

SIZED_BATCHES = 4  # of which the bytes are counted
MOST_TIMES = 1000


class StageTimes:
    """Times of one stage, over batches.

    Attributes:
        times_ns: of each batch, up to `MOST_TIMES`.
        samples, wall_ns, cpu_ns, process_cpu_ns, queued_ns: sums; CPU time of the thread, and of the whole process, and
            for how long the thread was ready to run and had no core.
    """

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        self.samples = self.wall_ns = self.cpu_ns = self.process_cpu_ns = self.queued_ns = 0
        self._sized = self._bytes = 0
        self._unsized = False

    def run(self, call: Callable[[], Any]) -> Any:
        """The result of `call`, whose time is counted."""
        process, cpu, queued = time.process_time_ns(), time.thread_time_ns(), ready_ns(HERE)
        began = time.perf_counter_ns()
        result = call()
        wall_ns = time.perf_counter_ns() - began
        computed_ns = min(time.thread_time_ns() - cpu, wall_ns)  # reading the clocks takes time as well
        self.wall_ns += wall_ns
        self.cpu_ns += computed_ns
        self.queued_ns += min((ready_ns(HERE) or 0) - (queued or 0), wall_ns - computed_ns)
        self.process_cpu_ns += time.process_time_ns() - process
        if len(self.times_ns) < MOST_TIMES:
            self.times_ns.append(wall_ns)
        return result

    def size(self, result: Any, samples: int) -> None:
        """Count the samples in the last result, and the bytes of the first ones."""
        self.samples += samples
        if len(self.times_ns) > SIZED_BATCHES or self._unsized:
            return
        size = bytes_of(result)
        if size is None:
            self._unsized = True
        else:
            self._sized, self._bytes = self._sized + samples, self._bytes + size

    def facts(self) -> dict[str, Any]:
        """The stage as the answer has it."""
        known = self._sized > 0 and not self._unsized
        return {
            "samples": self.samples,
            "times_ns": self.times_ns,
            "wall_ns": self.wall_ns,
            "cpu_ns": self.cpu_ns,
            "process_cpu_ns": self.process_cpu_ns,
            "queued_ns": self.queued_ns,
            "sample_bytes": self._bytes / self._sized if known else None,
        }


class InProcess:
    """Loads batches of `source` in this thread; the first one includes the set-up and does not count.

    Attributes:
        first_s: seconds of the first batch.
        fetch, collate: the two stages.
        work: the CPU time of the loading, by thread.
        sampler: stacks of the same time.
        lengths: of the samples.
        read: bytes that were read meanwhile.
        stopped: why it ended before its time, in words; "" if it did not.
        batch: the last batch.
    """

    def __init__(self, source: BatchSource) -> None:
        self.source = source
        self.fetch, self.collate = StageTimes(), StageTimes()
        self.work, self.sampler, self.lengths = LoaderWork(0), StackSampler(threading.get_ident()), Lengths()
        self.read = ReadCounters()
        self.stopped, self.batch = "", None
        self.first_s = 0.0

    @property
    def usual_s(self) -> float:
        """Seconds of a batch."""
        counted = len(self.fetch.times_ns)
        return (self.fetch.wall_ns + self.collate.wall_ns) / counted / 1e9 if counted else self.first_s

    def first(self) -> None:
        """Load the first batch.

        Raises:
            Exception: what the job's own code raises, as its loop would.
        """
        began = time.perf_counter()
        self.batch = self.source.batch()
        self.first_s = time.perf_counter() - began

    def run(self, until_s: float, most_samples: int) -> None:
        """Load until the performance counter reads `until_s`: at least two batches, or one if it is late already."""
        least = 1 if time.perf_counter() + self.first_s >= until_s else 2
        self.sampler.start()
        self.read.begin()
        try:
            while self.fetch.samples < most_samples and (
                len(self.fetch.times_ns) < least or time.perf_counter() < until_s
            ):
                self._load()
                self.sampler.step_ended(len(self.fetch.times_ns))
        except StopIteration:
            self.stopped = "the dataset has a single batch"
        except Exception as error:
            self.stopped = f"a sample could not be loaded: {type(error).__name__}: {error}"[:300]
        finally:
            self.read.end(self.fetch.samples)
            self.sampler.stop()

    def _load(self) -> None:
        indices = self.source.indices()
        began = time.perf_counter_ns()  # around the CPU clocks, so that no CPU time exceeds it
        before, process_ns, ready = of_threads(), time.process_time_ns(), ready_ns(HERE)
        samples = self.fetch.run(lambda: self.source.fetch(indices))
        batch = self.batch = self.collate.run(lambda: self.source.collate(samples))
        after, spent = of_threads(), time.process_time_ns() - process_ns
        ready_now = ready_ns(HERE)
        ready_meanwhile = None if ready is None or ready_now is None else ready_now - ready
        self.work.add(time.perf_counter_ns() - began, before, after, threading.get_ident(), spent, ready_meanwhile)
        count = len(samples) if self.source.batched else 1
        self.fetch.size(samples, count)
        self.collate.size(batch, count)
        self.lengths.note(samples, batch)
