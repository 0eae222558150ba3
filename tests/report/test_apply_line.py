"""Each form of the report says how to run with a change, the script unedited, if a run can make it."""

import pytest
from msgspec.structs import replace
from read_once import diagnosis_of
from report.pages import SAMPLES
from report.printed import printed

from diagnose.diagnosis import Diagnosis, Patch
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.views.to_try import command_with

COMMAND = "diagnose run --apply run#data-wait -- python train.py"


def recorded() -> Diagnosis:
    """The diagnosis of a run that kept its command."""
    answer = diagnosis_of(SAMPLES / "cpu-slow-loader.json.gz")
    trace = replace(answer.trace, files=("run/rank0.json",))
    return replace(answer, command=("python", "train.py"), trace=trace)


def test_every_form_of_the_report_names_the_command_with_the_change() -> None:
    answer = recorded()

    assert COMMAND in printed(answer)
    assert COMMAND in page(answer, About("1"))
    assert COMMAND in markdown(answer, About("1"))


def test_a_trace_without_its_command_has_nothing_to_paste() -> None:
    answer = replace(recorded(), command=())

    forms = (printed(answer), printed(answer, details=True), page(answer, About("1")), markdown(answer, About("1")))

    assert not any("--apply" in form or "COMMAND" in form or "FILE.json" in form for form in forms)


@pytest.mark.parametrize(
    ("patch", "line"),
    [
        (Patch(target="dataloader", set={"num_workers": 2}), COMMAND),
        (Patch(target="code", set={"gc": "gc.freeze()"}, by_run={"gc": {"every_steps": 9}}), COMMAND),
        (Patch(target="accelerate_ddp", set={"static_graph": True}), COMMAND),
        (Patch(target="code", set={"torch.autocast": "with torch.autocast(...):"}), ""),
        (Patch(target="dataloader", set={"num_workers": 2, "batch_size": 8}), ""),
        (None, ""),
    ],
)
def test_a_change_that_no_run_can_make_whole_has_no_command(patch: Patch | None, line: str) -> None:
    assert command_with(recorded(), "data-wait", patch) == line
