"""The findings of a run, as the command of `diagnose run --on-finding` reads them."""

from typing import Literal

from diagnose.diagnosis.answer import Answer

FindingKind = Literal["verdict", "stall", "slow-rank", "leak", "hang"]


class RunFinding(Answer, frozen=True, kw_only=True):
    """One finding of a run.

    Attributes:
        kind: what was found.
        about: the window, step, rank or quantity that it is about, "" for the whole run. A run has one finding of a
            kind about each.
        text: the finding in a sentence.
        do: the next thing to do.
        run: full path of the run's folder.
        window: name of the window's folder in it, "" if it is about no window of an armed run.
        rank: null if it is about no single rank.
        step: as the job counts; null if it is about no single step.
    """

    indented = 0
    on_one_line = None
    schema_version: int = 1
    kind: FindingKind
    about: str
    text: str
    do: str
    run: str
    window: str = ""
    rank: int | None = None
    step: int | None = None
