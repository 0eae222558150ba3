"""How long commands and captures take, and how much memory."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what benchmarks share is imported by its plain name, as tests do
