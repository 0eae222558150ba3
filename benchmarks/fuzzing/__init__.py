"""Sound inputs of every kind, mutated by their structure and by their bytes, and what must hold of each outcome.

    case = kinds.built(random.Random(1), "trace")
    end = outcome_of(case, folder)  # "read", "refused", or a DEFECT with its name

A case is a folder of files and a command. What ends in a defect is made small (`minimised`) and kept as a folder, which
`tests/test_fuzz.py` runs from then on.
"""

from .case import Case, kept_cases, loaded, saved
from .kinds import KINDS, built
from .minimise import minimised
from .outcome import Outcome, outcome_of

__all__ = ["KINDS", "Case", "Outcome", "built", "kept_cases", "loaded", "minimised", "outcome_of", "saved"]
