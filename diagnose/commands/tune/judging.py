"""Decide on a run: keep it if it is faster than the best before it, beyond the noise; else roll it back."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from diagnose.commands.compare.comparing import applied_to, compare
from diagnose.commands.compare.side import side_of
from diagnose.commands.tune.answer import Decision, Measured, Rung, Settings
from diagnose.commands.tune.evidence import held_against, hides_a_gain, is_unclear, not_shown, pairs_at_most, pooled
from diagnose.commands.tune.proposals import Proposal
from diagnose.commands.tune.running import EndedRun
from diagnose.commands.tune.settings import keys_of, merged, without
from diagnose.diagnosis import Applied, Diagnosis
from diagnose.diagnosis.promise import Judgement
from diagnose.diagnosis.terms import Estimate, Speedup

AS_IT_IS = "the job as it is"
_NS_PER_MS = 1e6
_FULL = ("fp32", "tf32")  # precisions of matrix products without mixed precision


def first_rung(ran: EndedRun, diagnosis: Diagnosis, file: str) -> Rung:
    """The job as it is."""
    return Rung(
        number=0,
        change=AS_IT_IS,
        outcome="ok",
        decision="first",
        measured=measured(diagnosis),
        seconds=ran.seconds,
        bundle=ran.bundle,
        diagnosis=file,
        total=(1.0, 1.0, 1.0),
    )


def failed_rung(number: int, proposal: Proposal, settings: Settings, ran: EndedRun) -> Rung:
    """A run that was not measured: what it tried is rolled back."""
    return Rung(
        number=number,
        rule=proposal.rule,
        change=proposal.change,
        outcome="oom" if ran.outcome == "oom" else "failed",
        decision="rolled back",
        because=ran.because,
        patch=proposal.patch,
        own=proposal.settings,
        settings=settings,
        predicted=proposal.predicted,
        seconds=ran.seconds,
        bundle=ran.bundle,
    )


def judged_rung(
    number: int,
    proposal: Proposal,
    settings: Settings,
    ran: EndedRun,
    runs: tuple[Diagnosis, Diagnosis, Diagnosis],
    noise_share: float | None,
    may_repeat: bool,
) -> Rung:
    """A run that was measured.

    Args:
        number: of the run.
        proposal: the change that is new in it.
        settings: all that it was asked to make.
        ran: how it ended.
        runs: the first, the best before, and this one.
        noise_share: how far repeats of a run lie apart; None for the usual distance.
        may_repeat: whether there is room for another pair of runs.
    """
    first, best, this = runs
    comparison = held_against(best, this, noise_share)
    rung = replace(
        failed_rung(number, proposal, without_refused(settings, this), ran),
        outcome="ok",
        achieved=comparison.speedup,
        judgement=_judgement(best, this, proposal.predicted),
        total=held_against(first, this, noise_share).speedup,
        measured=measured(this),
        because=comparison.because,
    )
    if because := _refused(proposal.settings, this):
        return replace(rung, decision="refused", because=because)
    if comparison.verdict == "better":
        return replace(rung, decision="kept")
    speedup = comparison.speedup
    if may_repeat and speedup and is_unclear(speedup, rung.predicted):
        return replace(rung, decision="unclear")
    return _with_what_it_can_show(rung, this, noise_share)


def settled_rung(
    number: int,
    of: Rung,
    ran: EndedRun,
    runs: tuple[Diagnosis, Diagnosis],
    earlier: Sequence[Estimate],
    noise_share: float | None,
    may_repeat: bool,
) -> Rung:
    """An unclear change that was made once more: all pairs of runs decide whether it is kept or rolled back.

    Args:
        number: of this run.
        of: the unclear one.
        ran: how this one ended.
        runs: the first, and the best before, made again just now.
        earlier: speed-ups by the pairs of runs before.
        noise_share: how far repeats of a run lie apart; None for the usual distance.
        may_repeat: whether there is room for another pair of runs.
    """
    rung = replace(_repeated(number, of, ran), rule=of.rule, patch=of.patch, own=of.own, predicted=of.predicted)
    if ran.diagnosis is None:
        return replace(rung, decision="rolled back")
    first, best = runs
    pair = held_against(best, ran.diagnosis, noise_share).speedup
    pairs = [*earlier, *([pair] if pair is not None else [])]
    achieved = pooled(pairs)
    more = may_repeat and len(pairs) < pairs_at_most(pairs[-1]) and is_unclear(achieved, of.predicted)
    unclear: Decision = "unclear" if more else "rolled back"
    settled = replace(
        rung,
        decision="kept" if achieved[0] > 1 else unclear,
        achieved=achieved,
        judgement=_judgement(best, ran.diagnosis, of.predicted, achieved if len(pairs) > 1 else None),
        total=held_against(first, ran.diagnosis, noise_share).speedup,
    )
    return _with_what_it_can_show(settled, ran.diagnosis, noise_share)


def _judgement(
    before: Diagnosis, this: Diagnosis, predicted: Speedup | None, pooled_speedup: Estimate | None = None
) -> Judgement | None:
    """The judgement of `diagnose compare` on these runs, by all pairs of runs where there are several."""
    sides = side_of(before, "before"), side_of(this, "after")
    applied = applied_to(*sides) or Applied(patches=())
    return replace(applied, predicted_speedup=predicted).judged_by(pooled_speedup or compare(*sides).speedup)


def _with_what_it_can_show(rung: Rung, this: Diagnosis, noise_share: float | None) -> Rung:
    """The rung, with the gain that its runs could have shown if it is rolled back for one that they hide."""
    if rung.decision != "rolled back" or rung.achieved is None or not hides_a_gain(rung.achieved):
        return rung
    return replace(rung, because=not_shown(rung.achieved, this, noise_share))


def again_rung(number: int, of: Rung, ran: EndedRun) -> Rung:
    """A run made once more, for another one to be held against."""
    return _repeated(number, of, ran)


def held_rung(
    number: int,
    of: Rung,
    ran: EndedRun,
    before: Diagnosis | None,
    earlier: Sequence[Estimate],
    noise_share: float | None,
) -> Rung:
    """The best run, made again at the end.

    Args:
        number: of this run.
        of: the best run.
        ran: how this one ended.
        before: the first run, made again just now; None if that was not measured.
        earlier: speed-ups of the best run over the first by the pairs of runs before.
        noise_share: how far repeats of a run lie apart; None for what is usual.
    """
    rung, this = _repeated(number, of, ran), ran.diagnosis
    pair = held_against(before, this, noise_share).speedup if before is not None and this is not None else None
    if pair is None:
        return replace(rung, decision="not held")
    total = pooled([*earlier, pair])
    hopes = total[1] > 1 and len(earlier) + 1 < pairs_at_most(pair)
    decision: Decision = "held" if total[0] > 1 else "unclear" if hopes else "not held"
    return replace(rung, decision=decision, achieved=pair, total=total)


def _repeated(number: int, of: Rung, ran: EndedRun) -> Rung:
    this = ran.diagnosis
    return Rung(
        number=number,
        change=f"run {of.number} again",
        outcome="oom" if ran.outcome == "oom" else "ok" if this is not None else "failed",
        decision="again",
        because=ran.because,
        settings=of.settings,
        measured=measured(this) if this is not None else None,
        seconds=ran.seconds,
        bundle=ran.bundle,
        repeats=of.number,
    )


def without_refused(settings: Settings, this: Diagnosis) -> Settings:
    """The settings of the run without the keys that the job refused: later runs are not asked for them."""
    if this.applied is None:
        return settings
    gone, in_use = {entry.key for entry in this.applied.refused}, _in_use(this.applied)
    kept = {
        target: {key: value for key, value in keys.items() if key not in gone or key in in_use.get(target, {})}
        for target, keys in settings.items()
    }
    return {target: keys for target, keys in kept.items() if keys}


def _in_use(applied: Applied) -> Settings:
    in_use: Settings = {}
    for patch in applied.patches:
        in_use = merged(in_use, {patch.target: patch.set})
    return in_use


def _refused(own: Settings, this: Diagnosis) -> str:
    """Why nothing of the change is in use; "" if some of it is, or it is unknown."""
    if this.applied is None:
        return ""
    if without(own, _in_use(this.applied)) != own:
        return ""
    keys = keys_of(own)
    return "; ".join(f"{entry.key}: {entry.because}" for entry in this.applied.refused if entry.key in keys) or (
        "the job does not use it"
    )


def measured(diagnosis: Diagnosis) -> Measured:
    """The columns of the table of trials, as far as the run has them."""
    facts: Mapping[str, Any] = {fact.name: fact.value for fact in diagnosis.facts}
    side = compare(diagnosis, diagnosis).before
    on_gpu = diagnosis.steps.device_time_ns is not None
    samples = _number(facts.get("micro_batch_size")), _number(facts.get("accumulation_steps"))
    per_step = _number(diagnosis.mfu.tokens_per_step)
    seq_len = round(per_step / (samples[0] * samples[1])) if per_step and samples[0] and samples[1] else None
    memory, precision = _number(facts.get("memory_peak_bytes")), _text(facts.get("precision"))
    return Measured(
        model=_text(diagnosis.setup.get("model.model_type")),
        gpus=(side.ranks or 1) if on_gpu else 0,
        micro_batch=round(samples[0]) if samples[0] else None,
        accumulation_steps=round(samples[1]) if samples[1] else None,
        seq_len=seq_len,
        model_precision=_text(facts.get("weights_precision")),
        mixed_precision="no" if precision in _FULL else precision,
        attention=_text(facts.get("attention_implementation")),
        liger=facts["uses_liger_loss"] if isinstance(facts.get("uses_liger_loss"), bool) else None,
        tokens_per_s_per_gpu=side.tokens_per_s_per_rank,
        memory_gb=memory / 1e9 if memory else None,
        samples_per_s=side.samples_per_s,
        step_ms=side.step_ns / _NS_PER_MS if side.step_ns else None,
    )


def _number(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if fits else None  # type: ignore[arg-type]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
