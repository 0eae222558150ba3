"""Real pairs of runs: small jobs that are slow for one reason each, what is advised, and what following it buys.

python -m benchmarks.pairs --subset ci
python -m benchmarks.pairs --write benchmarks/reports
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the jobs are imported by their plain name, as tests do
