"""The rank whose step is replayed with each change, and how far that replay can be trusted."""

from diagnose.diagnosis import ReplayReport
from diagnose.judge.case import Case, Judged
from diagnose.predict.whatif import Predictor
from diagnose.rule import Rule

STRAGGLER = "straggler"


def predictor_of(case: Case, judged: Judged) -> Predictor:
    """The predictor of the first rank that can be replayed and is no straggler, whose cure is a change of its own."""
    fired = [rule for rule, judgement in judged if judgement.fired and not _is_own(rule, case)]
    late = {straggler.rank for straggler in case.job.stragglers}
    typical = [m for m in case.measured if m.timeline.rank not in late] or case.measured[:1]
    predictors = [Predictor(measured, case.facts, fired) for measured in typical]
    return next((predictor for predictor in predictors if predictor.replay.valid), predictors[0])


def _is_own(rule: Rule, case: Case) -> bool:
    """Whether the rule is about the very rank that the diagnosis is of: what makes it late has rules of its own."""
    return rule.id == STRAGGLER and case.only in {straggler.rank for straggler in case.job.stragglers}


def replay_report(predictor: Predictor) -> ReplayReport:
    """The difference between the replay of the unchanged step and the measured step."""
    replay = predictor.replay
    return ReplayReport(
        measured_ns=replay.measured_ns,
        strict_error=replay.strict_error if replay.measured_ns else None,
        valid=replay.valid,
        because=replay.because,
    )
