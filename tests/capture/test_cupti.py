"""CUPTI detaches as the window stops, and no variable of the job is changed beyond that."""

import os
from types import SimpleNamespace

import pytest

from diagnose.probes.recording import cupti


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cupti.VARIABLE, raising=False)
    monkeypatch.setattr(cupti, "_ours", False)


def _built_for(cuda: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cupti.sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda=cuda)))


@pytest.mark.parametrize(("cuda", "detaches"), [("12.6", True), ("13.0", True), ("12.4", False), (None, False)])
def test_it_detaches_where_that_spares_graphs(
    cuda: str | None, detaches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _built_for(cuda, monkeypatch)

    assert cupti.detach_at_stop() is detaches
    assert os.environ.get(cupti.VARIABLE) == ("1" if detaches else None)

    cupti.stay_attached()
    assert cupti.VARIABLE not in os.environ


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_value_of_the_users_stays(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _built_for("13.0", monkeypatch)
    monkeypatch.setenv(cupti.VARIABLE, value)

    assert cupti.detach_at_stop() is (value == "1")
    cupti.stay_attached()
    assert os.environ[cupti.VARIABLE] == value
