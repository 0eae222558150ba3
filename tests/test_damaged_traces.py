"""Damaged traces, each through the whole analysis: refused, read with the loss stated, or read as if unharmed.

`DIAGNOSE_REAL_TRACES` names a folder that holds `damaged/`, with `damaged/ENDS.json` giving each file's end.
"""

import json
import os
from pathlib import Path

import pytest
from trace_files import assert_same

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Loss
from diagnose.errors import UserError
from diagnose.trace import read

FOLDER = Path(os.environ.get("DIAGNOSE_REAL_TRACES", "")) / "damaged"
ENDS: dict[str, str] = json.loads((FOLDER / "ENDS.json").read_text()) if (FOLDER / "ENDS.json").is_file() else {}
NOT_HERE = "set DIAGNOSE_REAL_TRACES to a folder that holds damaged/ENDS.json"
NO_LOSS = Loss(events=0, bytes=0, truncated=False, kinds=())

pytestmark = [pytest.mark.long, pytest.mark.skipif(not ENDS, reason=NOT_HERE)]


def ending(end: str) -> pytest.MarkDecorator:
    names = sorted(name for name, its_end in ENDS.items() if its_end == end)
    return pytest.mark.parametrize("name", names or [pytest.param("", marks=pytest.mark.skip(reason=NOT_HERE))])


def diagnosed(name: str) -> Diagnosis:
    return analyze(FOLDER / name)


def test_every_end_is_known() -> None:
    assert set(ENDS.values()) == {"refuse", "loss", "exact", "unknown"}
    assert all((FOLDER / name).exists() for name in ENDS)


@ending("refuse")
def test_refused(name: str) -> None:
    with pytest.raises(UserError) as error:
        diagnosed(name)
    assert error.value.exit_code == 3
    assert name in error.value.message
    assert error.value.do


@ending("loss")
def test_read_with_the_loss_stated(name: str) -> None:
    diagnosis = diagnosed(name)
    loss = diagnosis.trace.loss
    assert loss != NO_LOSS
    assert loss.kinds
    assert loss.events <= 0.01 * diagnosis.trace.events
    assert diagnosis.steps.count


@ending("exact")
def test_read_without_loss(name: str) -> None:
    assert diagnosed(name).trace.loss == NO_LOSS


@ending("unknown")
def test_missing_gpu_activity_is_no_idle_gpu(name: str) -> None:
    diagnosis = diagnosed(name)
    assert diagnosis.verdict.class_ == "undecided"
    assert diagnosis.steps.device_time_ns is None
    assert not any(entry.class_ == "data" or "idle" in entry.cause for entry in diagnosis.ledger)
    assert not diagnosis.plan


@pytest.mark.parametrize("name", ["plain_named.json.gz", "gz_named.json"])
def test_same_as_the_unharmed_file(name: str) -> None:
    assert_same(read(FOLDER / name), read(FOLDER / "bom.json"))


@pytest.mark.parametrize(
    "name", ["comma_decimal.json", "array_form.json", "no_tail.json", "no_distributedInfo.json", "nan_inf.json"]
)
@pytest.mark.parametrize("column", ["ts", "dur", "pid", "tid", "stream", "correlation", "external_id", "bytes"])
def test_columns_of_the_unharmed_file(name: str, column: str) -> None:
    ours, theirs = read(FOLDER / name), read(FOLDER / "bom.json")
    assert getattr(ours, column).tolist() == getattr(theirs, column).tolist()
    assert ours.names == theirs.names


def test_the_verdict_survives_what_loses_no_event() -> None:
    whole = diagnosed("bom.json")
    for name in ("comma_decimal.json", "gz_named.json", "plain_named.json.gz", "control_char.json", "nan_inf.json"):
        damaged = diagnosed(name)
        assert (damaged.verdict, damaged.steps, damaged.ledger) == (whole.verdict, whole.steps, whole.ledger), name
