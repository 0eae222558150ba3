"""Choose what to do next (one change, a better capture, or nothing), and why it comes first."""

from collections import Counter
from collections.abc import Sequence

from diagnose.attribution.causes import CAUSES
from diagnose.diagnosis import Diagnosis, Finding, Recommendation, bounding
from diagnose.diagnosis.iron_law import SHORT_NAMES
from diagnose.diagnosis.postmortem import Straggler
from diagnose.facts import spoken
from diagnose.judge.findings import STRAGGLER
from diagnose.predict.plan import ALIKE, WORTH_A_TRY, WORTH_PLANNING, pays, promised
from diagnose.ranks.stragglers.evidence import FEWEST_TO_TELL

SAME_PREDICTION = 0.005  # gains are printed with two digits
AT_ACHIEVABLE = ("model-flops", "padding", "recompute", "lower-precision", "below-datasheet")
_UNSAFE = "the capture is at fault, which comes before every change"
_OPENS_PLAN = "no other change gains more in its worst case"
_MAY_BUY_MORE = "it is severe and its gain is unknown, and the first change of the plan is less severe"
_LEADS = "it is critical, and may gain more than a change with a surer gain"
_GENTLER = "the change that gains a little more in its worst case alters the numerics"
_OPTION = "the change that gains more in its worst case alters the numerics, and is for information"
_ABOVE_NOISE = "the gains of the plan are below the noise of the steps, and the gain of this is unknown"
_UNPLANNED = "nothing is planned, and this comes first among the findings"
_DOUBTED = "the capture is in doubt, and the other findings are for information and promise nothing"
_OF_CAPTURE = "only the capture can be improved"
_LATE_RANK = "the ranks wait for each other, whatever limits the step of each"
WORTH_NAMING = 0.05  # of the step
MUCH_OPEN = 1 / 3  # of the rules that are asked: nothing found by the others says little of the job
MOST = 0.5  # of the waiting
_BETWEEN_RANKS = ("communication", "imbalance")
_ABOUT = {
    "data": "loading",
    "host": "the host's work",
    "memory": "memory traffic",
    "compute": "arithmetic",
    "communication": "communication",
    "capacity": "the use of the GPU's memory",
    "imbalance": "what makes ranks late",
}


def recommended(diagnosis: Diagnosis, rules: int = 0) -> Recommendation:
    """The answer to "what now?", from the findings, the plan and what they rest on; `rules` were there to judge by."""
    suspect, chosen = _leading_suspect(diagnosis), None if nothing_pays(diagnosis) else _first(diagnosis)
    if suspect is not None and (chosen is None or chosen[0].class_ in _BETWEEN_RANKS or _only_doubts(chosen[0])):
        return _watched(suspect)
    worth_doing = tuple(step.rule for step in diagnosis.plan if not step.below_noise)
    if chosen is None:
        return _more_steps(diagnosis) or _names(diagnosis) or _nothing(diagnosis, rules)
    finding, because = chosen
    return Recommendation(
        kind="capture" if finding.class_ == "validity" else "change",
        says=finding.says,
        because=because,
        of_another_class=of_another_class(finding, because, diagnosis),
        rule=finding.rule,
        severity=finding.severity,
        action=finding.action,
        do=finding.do,
        patch=finding.patch,
        predicted_speedup=finding.predicted_speedup,
        likely_speedup=finding.likely_speedup,
        usual_speedup=finding.usual_speedup,
        where=finding.where,
        worth_doing=worth_doing,
    )


def nothing_pays(diagnosis: Diagnosis) -> bool:
    """Whether every change is known to gain too little: none is planned, and what is not predicted is no warning."""
    if diagnosis.plan or not diagnosis.replay.valid or diagnosis.verdict.class_ == "undecided":
        return False
    if any(_is_unsafe(finding) for finding in diagnosis.findings):
        return False
    return not any(_may_pay(finding) for finding in diagnosis.findings if finding.class_ != "validity")


def _is_unsafe(finding: Finding) -> bool:
    return finding.class_ == "validity" and finding.severity == "critical"


def _only_doubts(finding: Finding) -> bool:
    return finding.class_ == "validity" and not _is_unsafe(finding)


def _may_pay(finding: Finding) -> bool:
    if finding.predicted_speedup is None:
        return finding.severity != "info"
    return pays(finding.predicted_speedup)


def _first(diagnosis: Diagnosis) -> tuple[Finding, str] | None:
    """The finding to act on: one that makes the answer unsafe, else the plan's first, else one not about the capture.

    If the plan gains no more than noise, it is a severe finding without a known gain, one that rests on a count, or
    None. Such a finding also precedes what opens the plan and is less severe, if it stands before it among the
    findings. A doubt about the capture precedes findings that are only for information and have no known gain.
    """
    findings, plan = diagnosis.findings, diagnosis.plan
    if findings and _is_unsafe(findings[0]):
        worst = diagnosis.verdict.doubts[0].rule if diagnosis.verdict.doubts else ""
        return next((f for f in findings if f.rule == worst and _is_unsafe(f)), findings[0]), _UNSAFE
    planned = {step.rule for step in plan}
    only_suspected = {STRAGGLER} if any(straggler.suspected for straggler in diagnosis.stragglers) else set()
    changes = [finding for finding in findings if finding.class_ != "validity" and finding.rule not in only_suspected]
    rest = (f for f in changes if f.rule not in planned and f.severity != "info" and f.predicted_speedup is None)
    severe = next(rest, None)
    if plan and plan[0].below_noise:
        counted = (f for f in changes if f.rests_on == "count" and f.predicted_speedup is None)
        above = severe or next(counted, None)
        return None if above is None else (above, _ABOVE_NOISE)
    opener = next((f for f in findings if plan and f.rule == plan[0].rule), None)
    if opener is not None:
        before = findings[: findings.index(opener)]
        if severe is not None and severe in before and severe.severity != opener.severity:
            return severe, _MAY_BUY_MORE
        return opener, _why_first(opener, diagnosis)
    doubt = next((f for f in findings if f.class_ == "validity" and f.severity == "warning"), None)
    if changes and doubt and changes[0].severity == "info" and changes[0].predicted_speedup is None:
        return doubt, _DOUBTED
    unplanned = [finding for finding in changes if _may_pay(finding)] if only_suspected else changes
    if unplanned:
        return unplanned[0], _UNPLANNED
    return (findings[0], _OF_CAPTURE) if findings and not only_suspected else None


def _why_first(opener: Finding, diagnosis: Diagnosis) -> str:
    """The reason why the plan's first change precedes all others, also those that gain more in their worst case."""
    surest = promised(opener.predicted_speedup)
    more = [f for f in diagnosis.findings if promised(f.predicted_speedup) > surest + SAME_PREDICTION]
    if opener.predicted_speedup is None or not more:
        return _OPENS_PLAN
    if opener.numerics or not all(f.numerics for f in more):
        return _LEADS
    if all(promised(f.predicted_speedup) < surest + ALIKE for f in more):
        return _GENTLER
    return _OPTION if all(f.severity == "info" for f in more) else _LEADS


# The sentence that joins the class of the step with a change that belongs to another one.


def of_another_class(chosen: Finding, because: str, diagnosis: Diagnosis) -> str:
    """The reason why the change is not of what bounds the step; "" if it is, or if nothing is known to bound it.

    Args:
        chosen: the finding to act on.
        because: why it comes first.
        diagnosis: with its verdict and findings.
    """
    bound_by = bounding(diagnosis.verdict.class_)
    late_for = _lateness_of(diagnosis) if chosen.class_ == "imbalance" else set()
    if bound_by in (chosen.class_, "undecided", *late_for) or chosen.class_ == "validity":
        return ""
    own = [finding for finding in diagnosis.findings if finding.class_ == bound_by]
    acts_on = _with_share(chosen.class_, diagnosis, " of the step")
    return f"Acts on {acts_on}, not on {_with_share(bound_by, diagnosis)}: {_why(chosen, because, bound_by, own)}."


def _lateness_of(diagnosis: Diagnosis) -> set[str]:
    """The classes of what makes the late ranks late."""
    late = {straggler.cause for straggler in diagnosis.stragglers}
    return {row.class_ for row in CAUSES.values() if late & {row.class_, row.lateness}}


def _with_share(class_: str, diagnosis: Diagnosis, of: str = "") -> str:
    """The class with its share of the step; of what is no class of the step its words alone."""
    if class_ not in SHORT_NAMES:
        return _ABOUT[class_]
    share = sum(entry.share for entry in diagnosis.ledger if entry.class_ == class_)
    return f"{SHORT_NAMES[class_]} ({100 * share:.0f} %{of})"  # type: ignore[index]


def _why(chosen: Finding, because: str, bound_by: str, own: Sequence[Finding]) -> str:
    if chosen.class_ == "imbalance":
        return _LATE_RANK
    name = SHORT_NAMES[bound_by]  # type: ignore[index]
    if not own:
        return f"no known change shortens {_ABOUT[bound_by]} here"
    known = [finding for finding in own if finding.predicted_speedup is not None]
    surest = max(known, key=lambda finding: promised(finding.predicted_speedup), default=None)
    if chosen.predicted_speedup is None:
        return because
    if surest is None:
        return f"this gains {_sure(chosen)}, and what the best {name} change saves is not known"
    if promised(surest.predicted_speedup) > promised(chosen.predicted_speedup) + SAME_PREDICTION:
        return f"{because} ({surest.rule}: {_sure(surest)})"
    return f"the best {name} change saves less in its worst case ({_sure(surest)}, not {_sure(chosen)})"


def _sure(finding: Finding) -> str:
    """The promise: nothing if the worst case is no gain."""
    gain = promised(finding.predicted_speedup)
    return f"{gain:.2f}x" if gain >= 1 + SAME_PREDICTION else "nothing"


# Answers without a change.


def _more_steps(diagnosis: Diagnosis) -> Recommendation | None:
    """Advice to capture more steps if a rank is suspected to be late; None if no rank is."""
    if (suspect := _suspect(diagnosis)) is None:
        return None
    return Recommendation(
        kind="capture",
        says=f"capture more steps (diagnose run --steps {suspect.steps_to_tell}): {_may_be_late(suspect)}",
        because="a suspected rank is examined before saying that nothing is left",
        do=_record_more(suspect),
    )


def _suspect(diagnosis: Diagnosis) -> Straggler | None:
    """The rank that is only suspected to be late, None if none is."""
    possible = diagnosis.postmortem.suspected if diagnosis.postmortem else ()
    return next((rank for rank in (*diagnosis.stragglers, *possible) if rank.suspected), None)


def _leading_suspect(diagnosis: Diagnosis) -> Straggler | None:
    """The suspect that steps enough show, and for which the ranks wait more than for all others together."""
    suspect = _suspect(diagnosis)
    if suspect is None or (suspect.waiting_share or 0.0) <= MOST:
        return None
    steps = next(rank.steps for rank in diagnosis.ranks if rank.rank == suspect.rank)
    return suspect if steps >= FEWEST_TO_TELL else None


def _may_be_late(suspect: Straggler) -> str:
    waits = f"each other rank waits {spoken(suspect.share, 'share')} of its steps for it"
    return f"rank {suspect.rank} may be late, and {waits}"


def _watched(suspect: Straggler) -> Recommendation:
    """Advice to look at the suspect before anything is changed in how the ranks communicate."""
    where = f" on {suspect.host}" if suspect.host else ""
    return Recommendation(
        kind="change",
        says=f"{_may_be_late(suspect)} ({suspect.of_steps} steps)",
        because="it may explain most of the waiting, which faster or less communication would not shorten",
        rule=STRAGGLER,
        action=f"find what rank {suspect.rank} may do differently",
        do=f"Look at what differs on rank {suspect.rank}{where}: {suspect.because}. {_record_more(suspect)}",
    )


def _record_more(suspect: Straggler) -> str:
    steps = suspect.steps_to_tell
    return f"To be sure, record {steps} steps of every rank: diagnose run --steps {steps}."


def _names(diagnosis: Diagnosis) -> Recommendation | None:
    """Advice to give the time names if the verdict is withheld for want of them; None if it is not."""
    doubts = diagnosis.verdict.doubts
    if not diagnosis.verdict.withheld or doubts[0].kind != "unnamed":
        return None
    return Recommendation(
        kind="capture",
        says=f"give the parts of the step names: {doubts[0].says}",
        because="no verdict is given, and no finding says what to do about it",
        action="give the parts of the step names",
        do="Record again with torch.profiler.record_function around the parts of the step.",
    )


def _nothing(diagnosis: Diagnosis, rules: int) -> Recommendation:
    """The answer that nothing is left to change, what no change is known for, and how much is open."""
    if diagnosis.plan:
        says = "no gain is larger than the noise of these steps; record 20 steps to see smaller ones"
        return Recommendation(
            kind="nothing", says=says, because="the gains of the plan are below the noise of the steps"
        )
    fired = any(finding.class_ != "validity" for finding in diagnosis.findings)
    only = "only the recording can be improved" if diagnosis.findings else "no known fault was found"
    sure, possible = (f"{100 * (factor - 1):.0f} %" for factor in (WORTH_PLANNING, WORTH_A_TRY))
    why = f"no change is sure to gain {sure}, or may gain {possible}" if fired else only
    unjudged, of_rules = len(diagnosis.not_judged), len(diagnosis.open_questions)
    unknown = f"; {unjudged:,} question{' is' if unjudged == 1 else 's are'} open" if unjudged else ""
    head = "nothing worth doing" if nothing_pays(diagnosis) else "nothing to change"
    if of_rules > MUCH_OPEN * (rules - diagnosis.unasked) > 0:
        head, why, unknown = "nothing found in what this capture shows", _open_rules(diagnosis), ""
    told = f"{head}: {why}{_of_achievable(diagnosis)}{_without_a_change(diagnosis)}{unknown}"
    return Recommendation(kind="nothing", says=told, because=why)


def _open_rules(diagnosis: Diagnosis) -> str:
    """How many rules could not be judged, and the one capture that is all that most of them need."""
    asked = diagnosis.open_questions
    wanted = Counter(item.captures[0].wanted for item in asked if len(item.captures) == 1 and item.captures[0].helps)
    told = f"{len(asked):,} rules lack data"
    capture, served = max(wanted.items(), key=lambda each: each[1], default=("", 0))
    return f"{told}; {capture} serves {served:,}" if 2 * served > len(asked) else told


def _without_a_change(diagnosis: Diagnosis) -> str:
    """A clause on the memory-bound work that takes much of the step though no change for it is known; "" without."""
    much = [e for e in diagnosis.ledger if e.class_ == "memory" and e.share >= WORTH_NAMING and e.cause in CAUSES]
    named = [CAUSES[entry.cause].label for entry in sorted(much, key=lambda entry: -entry.share)[:2]]
    return f"; no known change shortens {' and '.join(named)}" if named else ""


def _of_achievable(diagnosis: Diagnosis) -> str:
    """The share of the step that its FLOPs need at the fastest product measured on this GPU, else MFU, else nothing."""
    points = {part.part: part.points for part in diagnosis.waterfall}
    if "below-datasheet" in points:
        needed = sum(points.get(part, 0.0) for part in AT_ACHIEVABLE)
        return f"; its FLOPs need {needed:.0f} % of the step at the fastest products measured on such a GPU"
    mfu = diagnosis.mfu.value
    return "" if mfu is None else f"; MFU is {spoken(mfu, 'share')}"
