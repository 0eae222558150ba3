"""A job measured again and again, each time with one more change, until none helps: `diagnose tune`."""

from diagnose.tune.ladder import Ladder, Limits
from diagnose.tune.running import JobRuns, Ran, Window
from diagnose.tune.state import TuneFolder

__all__ = ["JobRuns", "Ladder", "Limits", "Ran", "TuneFolder", "Window"]
