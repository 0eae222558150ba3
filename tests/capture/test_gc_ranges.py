"""Garbage collections show in a capture without stacks, and end with it."""

import gc
from pathlib import Path

import pytest
from needs import needs

from diagnose.probes.recording.recorder import Recorder
from diagnose.trace import read


def test_a_collection_inside_the_window_is_a_range_of_the_trace(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    recorder, before = Recorder(tmp_path / "trace.json.gz", warmup=1, active=2), list(gc.callbacks)
    recorder.start(lambda: None, step=1)
    for _ in range(3):
        torch.ones(8).add(1)
        gc.collect()
        recorder.step()
    recorder.stop()
    recorder.write()

    trace = read(tmp_path / "trace.json.gz")
    collections = [row for row, name in enumerate(trace.name.tolist()) if trace.names[name] == "Python GC"]
    assert len(collections) == 2
    assert (trace.dur[collections] > 0).all()
    assert recorder.settings["record_python_gc_info"] is True
    assert gc.callbacks == before


def test_an_aborted_window_leaves_no_callback(tmp_path: Path) -> None:
    needs("torch")
    recorder, before = Recorder(tmp_path / "trace.json.gz", warmup=1, active=2), list(gc.callbacks)
    recorder.start(lambda: None, step=1)
    recorder.abort()

    assert gc.callbacks == before
