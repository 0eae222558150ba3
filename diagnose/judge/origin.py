"""The start of the job by the clock of its traces, and its Slurm number by its capture record."""

import datetime

from diagnose.diagnosis import Origin
from diagnose.judge.case import Case

_EARLIEST_S, _LATEST_S = 1_420_070_400, 4_102_444_800  # 2015, before which no trace is of torch, to 2100


def origin_of(case: Case) -> Origin:
    """The origin of the job, each part from the first rank that has it."""
    began = (rank.base_ns + int(rank.windows[0, 0]) for rank in case.job.ranks if rank.steps)
    seconds = (ns // 1_000_000_000 for ns in began)
    slurm = (measured.record.text("slurm.SLURM_JOB_ID") for measured in case.measured)
    return Origin(
        began=next((_utc(s) for s in seconds if _EARLIEST_S <= s < _LATEST_S), ""),
        slurm_job=next((number for number in slurm if number), ""),
    )


def _utc(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
