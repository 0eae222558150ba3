"""A comparison of a run with the same run plus a patch puts the patch's promise to the test."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up_jobs import diagnosed
from msgspec.structs import replace

from diagnose.cli import main
from diagnose.commands.ledger import file
from diagnose.diagnosis import Applied, Diagnosis, Patch

WORKERS = Patch(target="training_arguments", set={"dataloader_num_workers": 4})
BEFORE = {"training_arguments.dataloader_num_workers": 0, "training_arguments.bf16": False}
AFTER = {"training_arguments.dataloader_num_workers": 4, "training_arguments.bf16": False}


def patched(step_ms: float = 60.0, **changes: Any) -> Diagnosis:
    """The run with workers, of which 1.5-2.0x were promised."""
    applied = Applied(patches=(WORKERS,), rule="data-wait", predicted_speedup=(1.5, 2.0))
    return replace(diagnosed(step_ms, applied=applied), **{"setup": AFTER, "versions": {"torch": "2.13.0"}, **changes})


def kept(folder: Path, before: Diagnosis, after: Diagnosis, *options: str) -> list[tuple[str, float, bool]]:
    """Source, speed-up and success of the promises in the ledger after `diagnose compare A B`."""
    for name, run in (("a.json", before), ("b.json", after)):
        (folder / name).write_text(run.to_json())
    ours = {"DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": str(folder / "data")}
    result = CliRunner(env=ours).invoke(main, ["compare", str(folder / "a.json"), str(folder / "b.json"), *options])
    assert result.exit_code == 0, result.output
    return [(each.source, each.achieved[1], each.inside) for each in file.read(folder / "data").predictions]


def plain(**changes: Any) -> Diagnosis:
    return replace(diagnosed(100.0), **{"setup": BEFORE, "versions": {"torch": "2.13.0"}, **changes})


def test_the_measured_speedup_of_a_patch_goes_into_the_ledger_once(tmp_path: Path) -> None:
    promise = ("compare", pytest.approx(100 / 60, rel=1e-4), True)

    assert kept(tmp_path, plain(), patched()) == [promise]
    assert kept(tmp_path, plain(), patched()) == [promise]


@pytest.mark.parametrize(
    ("before", "after", "options"),
    [
        (plain(), patched(), ["--no-ledger"]),
        (patched(100.0), plain(), []),
        (plain(versions={"torch": "2.12.0"}), patched(), []),
        (plain(setup={**BEFORE, "training_arguments.bf16": True}), patched(), []),
        (plain(), replace(diagnosed(60.0), setup=AFTER), []),
    ],
    ids=["not wanted", "the patched run first", "another torch", "another setting changed too", "no patch"],
)
def test_what_tests_no_promise_leaves_none(
    before: Diagnosis, after: Diagnosis, options: list[str], tmp_path: Path
) -> None:
    assert kept(tmp_path, before, after, *options) == []
