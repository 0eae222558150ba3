"""Replays a rank's steps from typical gaps and latencies, and answers how long a step takes with a change."""

from diagnose.predict.replay.change import Change
from diagnose.predict.replay.replay import Replay, host_speed_for

__all__ = ["Change", "Replay", "host_speed_for"]
