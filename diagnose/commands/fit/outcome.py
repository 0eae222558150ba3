"""Whether a plan fits, and the range of its step."""

from diagnose.commands.fit.calibration import Calibration
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.fits import Fits
from diagnose.predict.memory.job import JobPlan


def fits_of(plan: JobPlan) -> Fits:
    """Memory of the fullest rank against that of its GPU."""
    return memory_estimate(plan).fits


def range_of(step: PredictedStep) -> Calibration:
    """The range of a predicted step."""
    return step.calibration
