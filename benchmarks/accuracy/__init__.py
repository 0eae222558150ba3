"""How often the diagnosis is right: a corpus of jobs whose answer is known, and the score on it.

python -m benchmarks.accuracy --subset ci
python -m benchmarks.accuracy --write benchmarks/reports
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the simulator is imported by its plain name, as tests do
