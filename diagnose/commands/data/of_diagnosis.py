"""The step that a loader has to keep up with, of a run that was diagnosed."""

from pathlib import Path

from diagnose.commands.data.question import LoaderQuestion
from diagnose.diagnosis.reading import diagnosis_in
from diagnose.errors import UserError, shown_path
from diagnose.predict.run_of_diagnosis import run_of
from diagnose.trace.source import opened


def question_of(path: Path, batches_per_step: int | None) -> LoaderQuestion:
    """The question by the output of `analyze --json` at `path`: its step without the wait for data.

    Args:
        path: the file.
        batches_per_step: what the user states; else the run's gradient accumulation.

    Raises:
        UserError: it is no diagnosis, or no step was counted.
    """
    if not path.is_file():
        raise UserError("no such file", where=path, do="make it: diagnose analyze RUN --json > run.json")
    with opened(path, "the run") as file:
        content = file.read()
    diagnosis = diagnosis_in(content, path)
    facts = {fact.name: fact.value for fact in diagnosis.facts}
    step_s = run_of(diagnosis, shown_path(path)).step_s
    waited, steps = facts.get("data_wait_share"), facts.get("accumulation_steps")
    if step_s is None:
        raise UserError("no step was counted", where=path, do="capture a few whole steps (diagnose run)")
    if isinstance(waited, int | float):
        step_s *= max(1 - waited, 0.01)
    known = round(steps) if isinstance(steps, (int, float)) and not isinstance(steps, bool) else None
    return LoaderQuestion(step_s, shown_path(path), batches_per_step or known)
