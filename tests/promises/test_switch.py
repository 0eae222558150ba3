"""Promises are kept where somebody sits at the machine: a variable says otherwise, and under a scheduler it has to."""

from pathlib import Path

import pytest
from kept_promises import promise

from diagnose.cli.users_data import why_off
from diagnose.commands.ledger.keeping import record, recorded_predictions
from diagnose.commands.ledger.lines import RecordedPredictions


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "KUBERNETES_SERVICE_HOST", "CI"])
def test_under_a_scheduler_nothing_is_kept_unless_it_is_asked_for(name: str) -> None:
    assert why_off({name: "7"}) == f"{name} is set, and DIAGNOSE_LEDGER=on is not"
    assert why_off({name: "7", "DIAGNOSE_LEDGER": "on"}) == ""
    assert why_off({name: ""}) == ""


@pytest.mark.parametrize(("stated", "on"), [("on", True), ("1", True), ("off", False), ("0", False), ("maybe", False)])
def test_the_variable_decides(stated: str, on: bool) -> None:
    assert (why_off({"DIAGNOSE_LEDGER": stated}) == "") is on
    assert why_off({}) == ""
    assert why_off({"CI": "false"}) == ""


def test_what_is_off_neither_writes_nor_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    record(promise(1))
    monkeypatch.delenv("DIAGNOSE_LEDGER")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    done = record(promise(2))

    assert (done.done, done.failed, done.because) == (
        False,
        False,
        "SLURM_JOB_ID is set, and DIAGNOSE_LEDGER=on is not",
    )
    assert recorded_predictions() == RecordedPredictions()
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    assert recorded_predictions().predictions == (promise(1),)
