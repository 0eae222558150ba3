"""The questions of `diagnose data` for the job's process, and the file of the answer."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from ..protocol import PIPELINE, partial

VERSION = 1  # of the answer
SECONDS, SAMPLES = 30.0, 50_000
MEASURED, PASSED_OVER = "measured.json", "passed-over.json"


@dataclass(frozen=True)
class LoadingRequest:
    """How long to measure, and which loader.

    Args:
        out: the folder of the answer; absolute.
        seconds: that the measurement lasts at most, the start of worker processes left out.
        samples: that are loaded in process at most.
        loader: the number of the DataLoader to measure, in the order in which they are iterated, from 1; None is that
            of the training loop.
    """

    out: str
    seconds: float = SECONDS
    samples: int = SAMPLES
    loader: int | None = None

    def to_json(self) -> str:
        """The settings as `from_environment` reads them."""
        return json.dumps(asdict(self))

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Put a file of this name there, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        path = os.path.join(self.out, partial(name))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(path, os.path.join(self.out, name))


def from_environment() -> LoadingRequest | None:
    """The measurement that this process is asked for; None without one."""
    text = os.environ.get(PIPELINE)
    return LoadingRequest(**json.loads(text)) if text else None
