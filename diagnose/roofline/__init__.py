"""The least work and traffic of each kernel, compared with the peaks of its device."""

from diagnose.roofline.kernels import Roofline, roofline_of
from diagnose.roofline.rows import MatrixWork, RooflineRow

__all__ = ["MatrixWork", "Roofline", "RooflineRow", "roofline_of"]
