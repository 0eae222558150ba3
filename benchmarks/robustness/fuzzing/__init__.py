"""Sound inputs of every kind, mutated by their structure and by their bytes, and what must hold of each outcome.

    case = kinds.built(random.Random(1), "trace")
    end = outcome_of(case, folder)  # "read", "refused", or a DEFECT with its name

A case is a folder of files and a command. What ends in a defect is made small (`minimised`) and kept as a folder, which
`tests/test_fuzz.py` runs from then on.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "remedies")]  # whose sound jobs the mutations begin with

from . import recorders, told  # noqa: E402
from .case import Case, kept_cases, loaded, saved  # noqa: E402
from .kinds import KINDS, built  # noqa: E402
from .minimise import minimised  # noqa: E402
from .outcome import Outcome, outcome_of  # noqa: E402

__all__ = [
    "KINDS", "Case", "Outcome", "built", "kept_cases", "loaded", "minimised", "outcome_of", "recorders", "saved",
    "told",
]  # fmt: skip
