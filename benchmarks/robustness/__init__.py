"""What damaged input, a kill at any moment, other versions and a moved threshold come to."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what benchmarks share is imported by its plain name, as tests do
