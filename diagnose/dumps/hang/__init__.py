"""Dumps of torch's flight recorder: which rank is missing, at which call, or which rank calls something else."""

from diagnose.dumps.hang.answer import Hang, schema, to_json
from diagnose.dumps.hang.judging import judged
from diagnose.dumps.hang.reading import found_in

__all__ = ["Hang", "found_in", "judged", "schema", "to_json"]
