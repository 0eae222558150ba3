"""How a job scales with its GPUs: runs at several sizes in, other sizes with a range out."""

from diagnose.predict.scaling.answer import Scaling, ScalingReport, Size, schema, to_json
from diagnose.predict.scaling.judge import report_of, scaling_of
from diagnose.predict.scaling.of_diagnosis import run_of
from diagnose.predict.scaling.question import Question
from diagnose.predict.scaling.run import Ladder, Run
from diagnose.predict.scaling.table import Choice, is_table_of_runs, read_table

__all__ = [
    "Choice",
    "Ladder",
    "Question",
    "Run",
    "Scaling",
    "ScalingReport",
    "Size",
    "is_table_of_runs",
    "read_table",
    "report_of",
    "run_of",
    "scaling_of",
    "schema",
    "to_json",
]
