"""`diagnose.analyze` in a notebook: what it shows, its data frames, and the example that the docs run."""

import copy
import json
import pickle
import re
from html import unescape
from pathlib import Path

import diagnoses
import pytest

import diagnose
from diagnose import notebook
from diagnose.errors import UserError
from diagnose.notebook import Analysis

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "notebook.ipynb"
SAMPLE = ROOT / "sample_traces" / "synthetic-memory-bound.json.gz"


def code_cells() -> list[str]:
    cells = json.loads(EXAMPLE.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_the_frame_holds_the_whole_page_and_ends_where_it_ends() -> None:
    shown = Analysis(diagnoses.hostile())._repr_html_()

    frame = re.fullmatch(r'<iframe title="diagnose" sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)">.*', shown)
    assert frame is not None
    assert shown.endswith('"></iframe>')
    assert unescape(frame[1]).startswith("<!doctype html>")
    assert "default-src 'none'" in unescape(frame[1])


def test_outside_of_a_notebook_it_reads_as_text() -> None:
    analysis = Analysis(diagnoses.data_bound())

    assert repr(analysis).startswith("verdict   data-bound")
    assert "\x1b" not in repr(Analysis(diagnoses.hostile()))
    assert analysis._repr_markdown_().startswith("## diagnose: **data-bound**")


def test_the_text_is_returned_and_not_displayed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")

    text = repr(Analysis(diagnoses.data_bound()))

    assert "next      TrainingArguments(..., dataloader_num_workers=8, dataloader_pin_memory=True)" in text
    assert capsys.readouterr().out == ""


def test_the_diagnosis_is_reached_through_it_and_a_copy_is_the_same() -> None:
    analysis = Analysis(diagnoses.data_bound())

    assert analysis.verdict.class_ == "data-bound"
    for other in (copy.copy(analysis), pickle.loads(pickle.dumps(analysis))):
        assert other.diagnosis == analysis.diagnosis
    with pytest.raises(AttributeError, match="no_such"):
        _ = analysis.no_such


def test_options_are_keywords_and_a_wrong_name_is_an_error() -> None:
    analysis = diagnose.analyze(SAMPLE, peak_tflops=100)

    assert analysis.mfu.peak_flops == 100e12
    with pytest.raises(TypeError, match="peak_tflop"):
        diagnose.analyze(SAMPLE, peak_tflop=100)


def test_without_pandas_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "find_spec", lambda _: None)

    with pytest.raises(UserError, match=re.escape('pip install ".[tables]"')):
        _ = Analysis(diagnoses.data_bound()).ledger


@pytest.mark.long
def test_the_tables_are_data_frames_with_types() -> None:
    pytest.importorskip("pandas", reason="data frames need pandas")
    analysis = diagnose.analyze(SAMPLE)

    assert analysis.ledger["time_ns"].sum() == analysis.steps.device_time_ns
    assert analysis.facts.loc["eager_attention_share", "value"] == pytest.approx(0.543, abs=0.001)
    unknown = analysis.facts[analysis.facts["value"].isna() & analysis.facts["text"].isna()]
    assert len(unknown)
    assert unknown["because"].notna().all()
    assert list(analysis.plan["rule"]) == [step.rule for step in analysis.diagnosis.plan]
    assert list(analysis.findings["rule"]) == [finding.rule for finding in analysis.diagnosis.findings]
    assert analysis.kernels["per_step_ns"].is_monotonic_decreasing
    assert analysis.ranks.groupby("rank")["share_of_step"].sum().tolist() == pytest.approx([1.0])
    assert str(analysis.table("traffic")["bytes"].dtype) == "Int64"
    with pytest.raises(UserError, match="no table 'gpu'"):
        analysis.table("gpu")


@pytest.mark.long
def test_the_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="data frames need pandas")
    monkeypatch.chdir(EXAMPLE.parent)
    names: dict[str, object] = {}

    for cell in code_cells():
        exec(compile(cell, EXAMPLE.name, "exec"), names)

    assert isinstance(names["report"], Analysis)


def test_the_example_is_executed_small_and_of_no_machine() -> None:
    cells = json.loads(EXAMPLE.read_text(encoding="utf-8"))["cells"]

    assert all(cell["outputs"] and cell["execution_count"] for cell in cells if cell["cell_type"] == "code")
    assert EXAMPLE.stat().st_size < 100_000
    assert not re.search(r"/(?:tmp|home|root|work|usr)/", EXAMPLE.read_text(encoding="utf-8"))
