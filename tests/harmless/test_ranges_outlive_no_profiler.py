"""No profiler of ours begins while a range is open that an earlier one saw begin.

Where such a range ends it writes into memory that was freed with the earlier profiler: in pure torch, some twenty
`stop(); start()` inside one `record_function` each crash the process.
"""

from pathlib import Path

import pytest
from capture.scripts import BARE, TRAINER, run

WATCHED = """
import torch.autograd.profiler as profilers
sessions, open_ranges, overlapping = [0], {}, []
def enter(self, original=profilers.record_function.__enter__):
    if torch.autograd._profiler_enabled():
        open_ranges[id(self)] = sessions[0], self.name
    return original(self)
def leave(self, *error, original=profilers.record_function.__exit__):
    open_ranges.pop(id(self), None)
    return original(self, *error)
profilers.record_function.__enter__, profilers.record_function.__exit__ = enter, leave
def start(self, original=torch.profiler.profile.start):
    sessions[0] += 1
    overlapping.extend(name for _, name in open_ranges.values())
    return original(self)
torch.profiler.profile.start = start
"""
SPOILT = """
number = [0]
def during(step):
    number[0] = step
torch.cuda.is_initialized = lambda: sys._getframe(1).f_code.co_name == "capturing"
torch.cuda.is_current_stream_capturing = lambda: number[0] in (8, 9)
"""
SAID = "print(sessions[0], overlapping)\n"


@pytest.mark.parametrize(
    ("script", "window", "at_least"),
    [
        (BARE + WATCHED + "loop(40)\n", {"at_step": 8}, 2),
        (BARE + WATCHED + "loop(40)\n", {"at_step": 8, "warmup": 1}, 1),
        (BARE + WATCHED + "loop(40)\n", {"at_step": 8, "warmup": 4}, 2),
        (BARE + WATCHED + SPOILT + "loop(40)\n", {"at_step": 8}, 4),
        (BARE + WATCHED + "loop(60)\n", {"armed": {"at_steps": [8, 18, 28]}}, 6),
        (BARE + WATCHED + "loop(60)\n", {"armed": {"every": 9}}, 8),
        (TRAINER + WATCHED + "trainer().train()\n", {"at_step": 8}, 2),
    ],
    ids=["bare", "no trial", "warm-up", "spoilt", "armed at steps", "armed every", "Trainer"],
)
def test_no_profiler_begins_inside_a_range_of_an_earlier_one(
    script: str, window: dict[str, object], at_least: int, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    done = run(script + SAID, tmp_path, window)

    assert done.returncode == 0, done.stderr
    profilers, overlapping = done.stdout.splitlines()[-1].split(maxsplit=1)
    assert int(profilers) >= at_least
    assert overlapping == "[]"
