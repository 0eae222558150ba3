"""Replays a rank's steps from typical gaps and latencies, and answers how long a step takes with a change."""

from diagnose.predict.replay.change import StepChange
from diagnose.predict.replay.host_speeds import AS_PROFILED, HostSpeeds
from diagnose.predict.replay.replay import Replay, host_speeds_ahead, host_speeds_for, likely_host_speeds_for

__all__ = [
    "AS_PROFILED",
    "HostSpeeds",
    "Replay",
    "StepChange",
    "host_speeds_ahead",
    "host_speeds_for",
    "likely_host_speeds_for",
]
