"""Each form of the report says how to run with a change, the script unedited, where a run can make it."""

import pytest
from report.pages import SAMPLES
from report.printed import printed

from diagnose.analysis import analyze
from diagnose.diagnosis import Patch
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.views.words import apply_line

COMMAND = "diagnose run --apply FILE.json#data-wait -- COMMAND"


def test_every_form_of_the_report_names_the_command_beside_the_change() -> None:
    answer = analyze(SAMPLES / "cpu-slow-loader.json.gz")

    assert COMMAND in printed(answer)
    assert COMMAND in page(answer, About("1"))
    assert COMMAND in markdown(answer, About("1"))


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
    assert apply_line("data-wait", patch) == line
