"""Whether a plan fits, and the range of its step."""

from diagnose.commands.fit.calibration import Calibration
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.fits import Fits
from diagnose.predict.memory.job import JobPlan


def fits_of(plan: JobPlan) -> Fits:
    """Memory of the fullest rank against that of its GPU."""
    made = memory_estimate(plan)
    low, high = round(0.9 * made.total_bytes), round(1.1 * made.total_bytes)
    return Fits(made.total_bytes, low, high, made.capacity_bytes, "not calibrated")


def range_of(step: PredictedStep) -> Calibration:
    """The range of a predicted step."""
    return step.calibration
