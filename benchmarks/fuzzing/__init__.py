"""Sound inputs of every kind, mutated by their structure and by their bytes, and what must hold of each outcome.

    case = kinds.built(random.Random(1), "trace")
    end = ending(case, folder)  # "read", "refused", or a DEFECT with its name

A case is a folder of files and a command. What ends in a defect is made small (`minimised`) and kept as a folder, which
`tests/test_fuzz.py` runs from then on.
"""

from .case import Case, kept_cases, loaded, saved
from .ending import Ending, ending
from .kinds import KINDS, built
from .minimise import minimised

__all__ = ["KINDS", "Case", "Ending", "built", "ending", "kept_cases", "loaded", "minimised", "saved"]
