"""A job's input pipeline: what the probe measured of it in, rates, workers and the gains of other batching out."""

from diagnose.predict.data_pipeline.answer import PipelineReport, schema, to_json
from diagnose.predict.data_pipeline.judge import report_of
from diagnose.predict.data_pipeline.measured import Measured, decoded, passed_over
from diagnose.predict.data_pipeline.question import Question

__all__ = ["Measured", "PipelineReport", "Question", "decoded", "passed_over", "report_of", "schema", "to_json"]
