"""When the holdings of a process are read: where a step ends, seldom, and of its children in a thread beside.

What is read while steps run is the same in each of them at its end, when activations are gone. The longer a run, the
fewer readings: each costs some 50 us, a look at the containers a millisecond. What is left of the host's memory matters
at the end alone, and takes longer to read than all else.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable

from ..guard import quietly
from ..side_thread import SideThread
from . import readings
from .containers import GrowingContainers

EVERY_STEPS = 25
EVERY_S = 1.0
CHILDREN_EVERY_S = 0.1
ROOM_EVERY_S = 1.0
MOST = 512  # readings; then half as many in the same steps, for as many again
PARTS = 10, 100  # of the time: more is not spent on children, in the first readings and later
FIRST = 64
FIRST_LOOK = 32  # steps until the first look at containers
LOOKS = 2**0.5  # times as many steps at the next one

Line = dict[str, object]


class HoldingsWatch:
    """Passes lines of the step log to `note`; the training thread calls `step_ended` and `stop`.

    Args:
        note: takes a line.
        step: returns the number of steps that the job has behind it.
        beside: returns what else each line of this process has.

    Attributes:
        due: the step at whose end the holdings are read, at the latest.
    """

    def __init__(
        self, note: Callable[[Line], object], step: Callable[[], int], beside: Callable[[], Line] = dict
    ) -> None:
        done = step()
        self.due = done + EVERY_STEPS
        self._note, self._done, self._step, self._also = note, done, step, beside
        self._every, self._every_s, self._children_s = EVERY_STEPS, EVERY_S, CHILDREN_EVERY_S
        self._taken = self._of_children = 0
        self._read_at = 0.0
        self._look_at = float(FIRST_LOOK)
        self._containers = GrowingContainers()
        self._thread = _thread.get_native_id()
        self._beside: SideThread | None = SideThread(self._run)
        note({"limits": quietly(readings.limits) or {}, "step": done})

    def step_ended(self) -> None:
        """Read what is due after a step; nothing is raised."""
        step, now = self._step(), time.monotonic()
        if step < self.due and now - self._read_at < self._every_s:
            return
        self._read_at = now
        self._tell(readings.of_this_process, self._also)
        if step - self._done >= self._look_at:
            self._look_at = (step - self._done) * LOOKS
            grown = quietly(lambda: self._containers.look(step))
            if grown:
                self._note({"growing": grown, "step": step})
        self._taken += 1
        if self._taken % MOST == 0:
            self._every, self._every_s = 2 * self._every, 2 * self._every_s
        self.due = step + self._every

    def stop(self) -> None:
        """Read no more."""
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.stop(within_s=1)

    def _tell(self, read: Callable[[], dict[str, int]], beside: Callable[[], Line] = dict) -> None:
        held = quietly(read)
        if held:
            self._note({"held": held, **(quietly(beside) or {}), "step": self._step()})  # type: ignore[dict-item]

    def _run(self, beside: SideThread) -> None:
        room_at = 0.0
        while self._beside is not None or not self._of_children:
            began = time.monotonic()
            self._tell(lambda: readings.of_children(self._thread))
            if began >= room_at:
                self._tell(readings.room)
                room_at = began + ROOM_EVERY_S
            self._of_children += 1
            if self._of_children % MOST == 0:
                self._children_s *= 2
            part = PARTS[self._of_children > FIRST]
            if beside.wait(max(self._children_s, part * (time.monotonic() - began))):
                return
