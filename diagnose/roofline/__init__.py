"""What each kernel computes and moves at least, against what its device can do."""

from diagnose.roofline.kernels import Roofline, roofline_of
from diagnose.roofline.rows import MatrixWork, RooflineRow

__all__ = ["MatrixWork", "Roofline", "RooflineRow", "roofline_of"]
