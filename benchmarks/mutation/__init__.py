"""Mutants of what judges: each threshold moved by a fifth, each condition negated, and what of the tests notices.

python -m benchmarks.mutation
python -m benchmarks.mutation --write benchmarks/reports
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # as tests import what is here
