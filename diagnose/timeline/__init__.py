"""One rank's trace on a time axis: steps, activities of the GPU with their launches, and what kernels are."""

from diagnose.timeline.activities import NOT_LAUNCHED, Activities
from diagnose.timeline.timeline import Timeline, grouped, thread_turns, timeline_of

__all__ = ["NOT_LAUNCHED", "Activities", "Timeline", "grouped", "thread_turns", "timeline_of"]
