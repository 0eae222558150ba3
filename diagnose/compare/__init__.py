"""Two runs side by side: which is faster, by how much beyond the noise, and where the difference comes from."""

from diagnose.compare.baseline import baseline_file, kept, read, written
from diagnose.compare.comparing import compare
from diagnose.compare.noise import FLOOR, FLOOR_ELSEWHERE, FLOOR_OF_BRIEF, FLOOR_ON_HOST, usual_floor
from diagnose.compare.promised import is_patch_alone
from diagnose.compare.regression import regression
from diagnose.compare.side import Side, side_of, side_of_log
from diagnose.compare.sources import side_at, side_told, told_at, told_before

__all__ = [
    "FLOOR",
    "FLOOR_ELSEWHERE",
    "FLOOR_OF_BRIEF",
    "FLOOR_ON_HOST",
    "Side",
    "baseline_file",
    "compare",
    "is_patch_alone",
    "kept",
    "read",
    "regression",
    "side_at",
    "side_of",
    "side_of_log",
    "side_told",
    "told_at",
    "told_before",
    "usual_floor",
    "written",
]
