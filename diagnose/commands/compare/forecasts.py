"""A forecast of `diagnose fit` as a side: its range takes the place of the noise of steps."""

import math

from diagnose.commands.compare.side import Side
from diagnose.diagnosis import Estimate
from diagnose.facts import duration
from diagnose.judge.mean_step import MeanStep, of_summary
from diagnose.predict.planned_run import PlannedRun

PREDICTED_STEP = "predicted step"


def side_of_forecast(run: PlannedRun, source: str) -> Side:
    """The side that a forecast describes."""
    low, likely, high = (round(1e9 * seconds) for seconds in run.seconds)
    return Side(
        source=source,
        kind="forecast",
        device=run.device,
        step=PREDICTED_STEP,
        predicted_ns=(low, likely, high),
        ranks=run.gpus,
        trains=True,
        parameters=run.parameters,
        tokens_per_step=run.tokens / run.gpus,
        seen=run.settings,
    ).checked()


def predicted_step(side: Side) -> MeanStep | None:
    """The step of a forecast; None for a run that was measured."""
    return of_summary(side.predicted_ns[1], None, 1) if side.predicted_ns else None


def speedup_of_forecast(
    before: Side, after: Side, steps: tuple[MeanStep, MeanStep], ratio: float, floor_share: float
) -> Estimate:
    """The speed as [low, likely, high]: what the ranges of both sides leave, as independent of each other.

    Args:
        before: a side, one of which at least is a forecast.
        after: the other.
        steps: of both.
        ratio: work of a step after over that before.
        floor_share: how far repeats of a measured run lie apart.
    """
    (faster, slower), (after_faster, after_slower) = (_ends(side, floor_share) for side in (before, after))
    likely = steps[0].mean_ns / steps[1].mean_ns * ratio
    return (
        likely * math.exp(-math.hypot(faster, after_slower)),
        likely,
        likely * math.exp(math.hypot(slower, after_faster)),
    )


def _ends(side: Side, floor_share: float) -> tuple[float, float]:
    """Logarithms by which the step may be shorter and longer."""
    if not side.predicted_ns:
        return math.log1p(floor_share), math.log1p(floor_share)
    low, likely, high = side.predicted_ns
    return math.log(likely / low), math.log(high / likely)


def forecast_because(before: Side, after: Side, speedup: Estimate, of_step_time: bool, measured_ns: float) -> str:
    """Whether the range of the forecast holds what was measured, or which ranges lie apart."""
    low, _, high = speedup
    if before.predicted_ns and after.predicted_ns:
        return f"the ranges of both forecasts leave {low:.2f} to {high:.2f} times as fast"
    forecast = before if before.predicted_ns else after
    if not of_step_time:
        return f"the range of the forecast leaves {low:.2f} to {high:.2f} times as fast"
    least, likely, most = forecast.predicted_ns
    where = "within" if least <= measured_ns <= most else "below" if measured_ns < least else "above"
    off = measured_ns / likely - 1
    span = f"{duration(least)} to {duration(most)}"
    apart = f"{100 * abs(off):.0f} % {'above' if off > 0 else 'below'} the likely {duration(likely)}"
    return f"the measured step, {duration(measured_ns)}, is {where} the predicted {span}, {apart}"
