"""The arrays of this program by what they hold. Shapes and units are said where an array is a field or a result."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
"""Times in nanoseconds, counts, rows of a table, numbers of steps and ranks."""
Floats = NDArray[np.float64]
"""Shares, rates and times that are averaged."""
Mask = NDArray[np.bool_]
"""One answer for each entry."""
Ids = NDArray[np.int32]
"""Indices into a table of names, and numbers that a trace gives."""
Labels = NDArray[np.object_]
"""Texts of which many entries share one."""
Texts = NDArray[np.str_]
"""Texts that are compared all at once."""
Array = NDArray[Any]
"""An array of any type."""
