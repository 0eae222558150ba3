"""Commands that end at any moment, on a full or read-only disk, or by a clock that jumps: nothing may be lost."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
