"""The first screen: what limits the job, why, what to change, how much it brings, and how sure all that is.

Every form of the report can show it. A line without content is left out.
"""

import msgspec

from diagnose.diagnosis import IRON_LAW, CauseClass, Diagnosis, Finding
from diagnose.diagnosis.iron_law import SHORT_NAMES
from diagnose.diagnosis.terms import expected_range, may_slow
from diagnose.report.views.applied import applied_line
from diagnose.report.views.breakdown import Basis, basis
from diagnose.report.views.changes import record_line
from diagnose.report.views.gains import gain, gain_of, reason_wide, saved_ms
from diagnose.report.views.plain import plain
from diagnose.report.views.speed_words import eta, mfu_words, speed_line
from diagnose.report.views.summary import loss_line
from diagnose.report.views.to_try import command_to_try
from diagnose.report.views.why import class_ns, percent, why_lines
from diagnose.report.views.words import counted, patch_lines

CLASSES_SHOWN = 6
SHOWN_FROM = 0.01  # of the step
DOUBTS_SHOWN = 2
WIDE = "wide, because "  # begins the note on the width of a range
ALTERS = "can change results"
_CLASSES_KNOWN = ("unnamed", "profiler", "start-in-window")  # doubts about what a part of the step is, not all of it
_THEN = ", then "  # in an action of two parts, of which the patch is the second
_FUNCTIONAL = "torch.nn.functional."


class ScreenLine(msgspec.Struct, frozen=True):
    """A labelled line; `is_code` if it is typed as it stands, `warns` if it is no good news."""

    label: str
    text: str
    is_code: bool = False
    warns: bool = False


class ClassLine(msgspec.Struct, frozen=True):
    """A class of the step: its time, its share, and its term of the iron law with the place of the time."""

    name: str
    class_: CauseClass
    time: str
    share: float
    term: str

    @property
    def percent(self) -> str:
        """The share in whole per cent."""
        return f"{100 * self.share:.0f} %"


class FirstScreen(msgspec.Struct, frozen=True):
    """The lines above the table of classes, the table, and what was measured."""

    lines: tuple[ScreenLine, ...]
    classes: tuple[ClassLine, ...]
    scope: str


def first_screen(diagnosis: Diagnosis) -> FirstScreen:
    """The screen of the diagnosis."""
    of = basis(diagnosis)
    chosen = diagnosis.finding(diagnosis.next.rule)
    lines = [
        ScreenLine("verdict", verdict_words(diagnosis), warns=bool(diagnosis.verdict.doubts)),
        ScreenLine("why", " ".join(why_lines(diagnosis))),
        ScreenLine("next", next_words(diagnosis, chosen), is_code=chosen is not None and chosen.patch is not None),
        ScreenLine("gain", gain_words(diagnosis, chosen, of), warns=_slows(chosen)),
        ScreenLine("", plain(diagnosis.next.of_another_class)),
        ScreenLine("try", plain(command_to_try(diagnosis)), is_code=True),
        ScreenLine("applied", applied_line(diagnosis.applied)),
        ScreenLine("speed", speed_line(diagnosis)),
        ScreenLine("MFU", mfu_words(diagnosis)),
    ]
    shown = tuple(line for line in lines if line.text)
    return FirstScreen(shown, class_lines(diagnosis, of), scope_words(diagnosis, chosen))


def verdict_words(diagnosis: Diagnosis) -> str:
    """The class, how sure it is, and the worst doubts."""
    verdict = diagnosis.verdict
    if verdict.withheld:
        return plain(f"none: {verdict.withheld}")
    class_ = f"undecided: {' or '.join(verdict.between)}" if len(verdict.between) > 1 else verdict.class_
    doubts = " and ".join(doubt.says for doubt in verdict.doubts[:DOUBTS_SHOWN])
    return plain(f"{class_}, confidence {verdict.confidence}" + (f" because {doubts}" if doubts else ""))


def next_words(diagnosis: Diagnosis, chosen: Finding | None) -> str:
    """The change as it is typed, else in words; or that there is none.

    A comment stands on a line of its own, as does the part of the action that comes before what is typed.
    """
    if chosen is None:
        return plain(diagnosis.next.says)
    typed = "; ".join(patch_lines(chosen.patch)).replace(_FUNCTIONAL, "F.")
    if typed:
        before, then, _ = plain(chosen.action).partition(_THEN)
        return (f"# first {before}\n" if then else "") + typed.replace(" # ", "\n# ")
    return plain(chosen.action or chosen.do)


def gain_words(diagnosis: Diagnosis, chosen: Finding | None, of: Basis) -> str:
    """The likely gain with its range, what it saves, what it risks, and why the range is wide."""
    return "; ".join(gain_notes(diagnosis, chosen, of))


def gain_notes(diagnosis: Diagnosis, chosen: Finding | None, of: Basis) -> list[str]:
    """The parts of `gain_words`, the gain itself first; empty if nothing is to be said."""
    if chosen is None:
        return []
    predicted = expected_range(chosen)
    if diagnosis.next.kind != "change":
        return [f"{gain(predicted)}, which is no prediction of the next run"] if predicted else []
    if predicted is None:
        why = chosen.assumes or ("" if diagnosis.replay.valid else diagnosis.replay.because)
        return [plain(f"not predicted: {why}")] if why else []
    told = gain_of(chosen)
    saved = saved_ms(chosen, of.step_ns)
    notes = (
        f"{told}: {saved}" if saved else told,
        f"{WIDE}{reason_wide(chosen)}" if reason_wide(chosen) else "",
        ALTERS if chosen.numerics else "",
        record_line(diagnosis, chosen.rule),
    )
    return [plain(note) for note in notes if note]


def _slows(chosen: Finding | None) -> bool:
    return chosen is not None and may_slow(chosen.predicted_speedup)


def class_lines(diagnosis: Diagnosis, of: Basis) -> tuple[ClassLine, ...]:
    """The classes by time, none below a hundredth of the step; none of a step that says nothing about the job."""
    doubts = diagnosis.verdict.doubts
    if not of.total_ns or (diagnosis.verdict.withheld and doubts and doubts[0].kind not in _CLASSES_KNOWN):
        return ()
    sums = sorted(class_ns(diagnosis).items(), key=lambda item: -item[1])
    rows = [_class_line(diagnosis, class_, ns, of) for class_, ns in sums if ns >= SHOWN_FROM * of.total_ns]
    return tuple(rows[:CLASSES_SHOWN])


def _class_line(diagnosis: Diagnosis, class_: CauseClass, ns: int, of: Basis) -> ClassLine:
    law = IRON_LAW[class_]
    place = law.place(diagnosis.steps.device_time_ns is None)
    reached = eta(diagnosis, ns, of.total_ns) if class_ == "compute" else None
    told = f"{law.term}, eta {percent(reached)}" if reached is not None else f"{law.term:6}{place}".rstrip()
    return ClassLine(SHORT_NAMES[class_], class_, of.per_step(ns), ns / of.total_ns, told)


def scope_words(diagnosis: Diagnosis, chosen: Finding | None) -> str:
    """Sentences on the measured steps, their limits, and the place of the rest."""
    limits = [
        "CPU only: GPU questions were not asked" if diagnosis.cpu_only else "",
        "Nothing trains here, so advice on training is left out" if diagnosis.trains is False else "",
        f"Lost: {loss_line(diagnosis.trace)}" if loss_line(diagnosis.trace) else "",
    ]
    why = f"Why: diagnose explain {chosen.rule}" if chosen is not None else ""
    return plain(". ".join(filter(None, [_measured(diagnosis), *limits, why])))


def _measured(diagnosis: Diagnosis) -> str:
    steps, ranks = diagnosis.steps, max(len(diagnosis.ranks), 1)
    if diagnosis.rank is not None:
        return f"{counted(steps.count, 'step')} of rank {diagnosis.rank}, one of {ranks}"
    gpu = _of_world(diagnosis) or ("" if steps.device_time_ns is None else ", 1 GPU")
    if ranks == 1:
        return f"{counted(steps.count, 'step')}{gpu}"
    return f"{counted(steps.count // ranks, 'step')} on each of {ranks} ranks"


def _of_world(diagnosis: Diagnosis) -> str:
    """A clause on the number of the rank, if it is one of several; else ""."""
    world = diagnosis.fact("world_size")
    alone = len(diagnosis.ranks) == 1 and isinstance(world, int) and world > 1
    return f" of rank {diagnosis.ranks[0].rank}, one of {world}" if alone else ""
