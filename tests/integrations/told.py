"""Training scripts whose windows are told to loggers, and a diagnosis to tell, as a JSON object."""

import json
from pathlib import Path
from typing import Any

from diagnose.analysis import analyze

SAMPLES = Path(__file__).parents[2] / "sample_traces"

# Prints what the loggers of a Trainer get, which comes after the script TRAINER of the tests of captures.
RECORDING = """
import json
from transformers import TrainerCallback
class Recording(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **more):
        print("GOT", json.dumps([state.global_step, logs]))
def told(*callbacks, **more):
    made = trainer(**more)
    for callback in callbacks:
        made.add_callback(callback)
    return made
"""


def diagnosed(sample: str) -> dict[str, Any]:
    """The diagnosis of a sample trace as a JSON object."""
    return dict(json.loads(analyze(str(SAMPLES / sample)).to_json()))


def got(stdout: str) -> list[tuple[int, dict[str, Any]]]:
    """Each step at which something was logged, and what."""
    lines = [json.loads(line.removeprefix("GOT ")) for line in stdout.splitlines() if line.startswith("GOT ")]
    return [(step, logs) for step, logs in lines]


def figures_of(stdout: str) -> list[dict[str, Any]]:
    """What was logged of windows."""
    return [logs for _step, logs in got(stdout) if "diagnose/step_ms" in logs]
