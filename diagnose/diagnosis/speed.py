"""How fast the job is, apart from the profiler, and how full its GPUs are."""

import msgspec

from diagnose.diagnosis.terms import Nanoseconds


class StepRate(msgspec.Struct, frozen=True, kw_only=True):
    """Times of `count` steps: the median, the shortest and the longest, and the rates of the job that go with the mean.

    Rates are those of all ranks together; null if the size of the batch is not known.
    """

    count: int
    step_ns: Nanoseconds
    least_ns: Nanoseconds
    most_ns: Nanoseconds
    tokens_per_s: float | None = None
    samples_per_s: float | None = None


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of the job and the peak memory of its fullest GPU.

    `before` and `after` are the steps that the capture timed without the profiler around its window, null if it timed
    none there. `job` are all of them together; null if those before and after differ too much to be one speed. Without
    such steps `job` are the counted steps, and `profiled` is true. If `job` is null, `because` is the reason.
    `tokens_because` and `samples_because` are the reasons for unknown rates. `peak_bytes` is the most that torch's
    allocator held on the fullest GPU, on rank `peak_rank`, of `memory_bytes`; unknown is null, and `peak_because` why.
    """

    job: StepRate | None = None
    before: StepRate | None = None
    after: StepRate | None = None
    profiled: bool = False
    because: str = ""
    tokens_because: str = ""
    samples_because: str = ""
    peak_bytes: int | None = None
    memory_bytes: int | None = None
    peak_rank: int | None = None
    peak_because: str = ""
