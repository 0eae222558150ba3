"""What to leave alone, and what another recording would answer, in the order in which it matters to this job."""

import re

from diagnose.diagnosis import Diagnosis, NotAdvised, NotJudged, bounding
from diagnose.report.views.plain import plain
from diagnose.report.views.words import to_capture

LEFT_ALONE = 3
CAPTURES_SHOWN = 2
MOST_THINGS = 2  # of one recording: more is too much to ask for
LONGEST_ADVICE = 124  # letters: two lines of a page of the usual width
_CLAUSE_END = re.compile(r"[:;,] | \(| — ")
_OWN_NAMES = ("Python", "Liger")


def leave_alone(diagnosis: Diagnosis) -> tuple[NotAdvised, ...]:
    """Changes that would not help, those of the class that limits the step first."""
    ordered = sorted(diagnosis.not_advised, key=lambda item: _distance(diagnosis, item.class_))
    return tuple(ordered[:LEFT_ALONE])


def _distance(diagnosis: Diagnosis, class_: str) -> int:
    """How far a class is from what limits the step: first its own, then those that it may be, then the rest."""
    bound = [bounding(name) for name in (diagnosis.verdict.class_, *diagnosis.verdict.between)]
    return bound.index(class_) if class_ in bound else len(bound)


def to_learn(diagnosis: Diagnosis) -> list[str]:
    """A sentence for each recording that answers open questions: the least to do first, then the most questions."""
    by_capture: dict[str, list[NotJudged]] = {}
    for item in diagnosis.open_questions:
        what = to_capture(item)
        if what and len(item.captures) <= MOST_THINGS:
            by_capture.setdefault(what, []).append(item)
    ordered = sorted(by_capture.items(), key=lambda pair: (len(pair[1][0].captures), -len(pair[1])))
    return [_advice(diagnosis, items) for _, items in ordered[:CAPTURES_SHOWN]]


def _advice(diagnosis: Diagnosis, items: list[NotJudged]) -> str:
    """What to record, and the nearest questions that this answers: as many as two lines hold, at least one."""
    nearest = [_clause(item.title) for item in sorted(items, key=lambda item: _distance(diagnosis, item.class_))]
    for shown in range(len(nearest), 0, -1):
        more = [f"{len(nearest) - shown} more questions"] if shown < len(nearest) else []
        told = plain(f"{_action(items[0])}, to see whether {'; '.join([*nearest[:shown], *more])}")
        if len(told) <= LONGEST_ADVICE:
            break
    return told


def clauses(because: str, room: int) -> str:
    """The first clauses of a reason, as many whole ones as there is room for, at least one."""
    ends = [found.start() for found in _CLAUSE_END.finditer(because)]
    fitting = [end for end in ends if end <= room]
    if len(because) <= room or not ends:
        return because
    return because[: fitting[-1] if fitting else ends[0]]


def _action(item: NotJudged) -> str:
    """`record with diagnose run and record_shapes=True`, or what else is to do."""
    settings = [capture.wanted for capture in item.captures if capture.kind == "setting"]
    others = [capture.wanted for capture in item.captures if capture.kind != "setting"]
    return "; ".join([*([f"record with {' and '.join(settings)}"] if settings else []), *others])


def _clause(title: str) -> str:
    """The sentence within another one: its first word is written small unless it is a name."""
    first = title.split(maxsplit=1)[0] if title else ""
    is_name = first[1:].lower() != first[1:] or first.startswith(_OWN_NAMES)
    return title if is_name else title[:1].lower() + title[1:]
