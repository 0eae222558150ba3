"""Compiled code is used in the version that its module was written for, and in no other."""

import importlib
import sys
from types import SimpleNamespace

import pytest

from diagnose.version import compiled


@pytest.mark.parametrize(
    ("written_for", "name"),
    [
        ("diagnose.trace.scanning", "diagnose.trace._scanner"),
        ("diagnose.predict.replay.passes", "diagnose.predict.replay._loop"),
        ("diagnose.roofline.nests", "diagnose.roofline._nests"),
    ],
)
def test_compiled_code_of_another_version_is_left_out(
    written_for: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, version = pytest.importorskip(name), importlib.import_module(written_for)._VERSION

    assert compiled(name, version) is module
    for other in (SimpleNamespace(VERSION=0), SimpleNamespace()):
        monkeypatch.setitem(sys.modules, name, other)
        assert compiled(name, version) is None
