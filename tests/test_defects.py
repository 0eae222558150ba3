"""The last net: a metric, rule or section that fails is named in a report that is otherwise whole."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import jsonschema
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.analysis import rank as rank_analysis
from diagnose.cli import main
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, defects
from diagnose.judge import judge
from diagnose.metrics import REGISTRY
from diagnose.predict import changed_steps
from diagnose.report.text import report
from diagnose.rule import Rule

SAMPLE = Path(__file__).parent.parent / "sample_traces" / "synthetic-memory-bound.json.gz"
SAYS = "not judged: a bug in diagnose, in "


def fails(*args: Any, **kwargs: Any) -> NoReturn:
    raise KeyError("nobody thought of it")


@pytest.fixture(autouse=True)
def _with_the_net(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(defects.VARIABLE)


@pytest.fixture(scope="module")
def whole() -> Diagnosis:
    return analyze(SAMPLE)


def sound(found: Diagnosis) -> dict[str, Any]:
    """The JSON of the diagnosis, which the schema describes and whose ledger adds up."""
    read: dict[str, Any] = json.loads(found.to_json())
    jsonschema.validate(read, Diagnosis.schema())
    assert sum(entry["ns"] for entry in read["ledger"]) == read["steps"]["device_time_ns"]
    return read


def test_a_metric(whole: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "tf32_share", replace(REGISTRY["tf32_share"], function=fails))
    found = analyze(SAMPLE)

    fact = next(f for f in sound(found)["facts"] if f["name"] == "tf32_share")
    assert fact["value"] is None
    assert fact["because"].startswith(f"{SAYS}tf32_share (KeyError")
    assert [f for f in found.facts if f.name != "tf32_share"] == [f for f in whole.facts if f.name != "tf32_share"]


def test_a_metric_that_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "tf32_share", replace(REGISTRY["tf32_share"], function=lambda m: float("inf")))

    fact = next(f for f in sound(analyze(SAMPLE))["facts"] if f["name"] == "tf32_share")
    assert fact["because"].startswith(f"{SAYS}tf32_share")


def test_a_rule(whole: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    name = whole.findings[0].rule
    judged = Rule._judged
    monkeypatch.setattr(Rule, "_judged", lambda rule, facts: fails() if rule.id == name else judged(rule, facts))
    found = analyze(SAMPLE)

    sound(found)
    assert next(n for n in found.not_judged if n.rule == name).because.startswith(f"{SAYS}{name}")
    assert {f.rule for f in found.findings} == {f.rule for f in whole.findings} - {name}


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "function", "section"),
    [
        (judge, "mfu_of", "mfu"),
        (judge, "waterfall_of", "waterfall"),
        (judge, "plan_steps", "plan"),
        (judge, "roofline_of_job", "roofline"),
        (judge, "kernel_rows", "kernels"),
        (judge, "range_rows", "ranges"),
        (judge, "applied_of", "applied"),
        (judge, "step_timeline", "timeline"),
    ],
)
def test_a_section(
    module: ModuleType, function: str, section: str, whole: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, function, fails)
    found = analyze(SAMPLE)

    sound(found)
    told = f"{SAYS}{section} (KeyError: 'nobody thought of it')"
    assert [n.because for n in found.not_judged if n.rule == section] == [told]
    assert (found.verdict, found.ledger, found.findings) == (whole.verdict, whole.ledger, whole.findings)
    for options in (["--details"], ["--markdown", "-"]):
        done = CliRunner().invoke(main, ["analyze", str(SAMPLE), *options])
        assert done.exit_code == 0
        assert f"a bug in diagnose, in {section}" in " ".join(done.stdout.split())


def test_the_roofline_of_a_rank(whole: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_analysis, "roofline_of", fails)
    found = analyze(SAMPLE)

    sound(found)
    assert found.steps == whole.steps


def test_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_steps.Replay, "of", fails)
    found = analyze(SAMPLE)

    sound(found)
    assert not found.replay.valid
    assert found.replay.because.startswith(f"{SAYS}replay")


def test_a_section_of_the_printed_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report.SECTIONS, "plan", fails)
    done = CliRunner().invoke(main, ["analyze", str(SAMPLE)])

    assert done.exit_code == 0
    assert f"{SAYS}the plan" in done.stdout
    assert "verdict   " in done.stdout
    assert "to learn more" in done.stdout


def test_a_section_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = importlib.import_module("diagnose.report.html.page")
    monkeypatch.setitem(page.SECTIONS, "roofline", page.PageSection(fails))
    done = CliRunner().invoke(main, ["analyze", str(SAMPLE), "-q", "--html", str(tmp_path / "x.html")])

    assert done.exit_code == 0
    assert f"{SAYS}the roofline" in (tmp_path / "x.html").read_text()


def test_what_leaves_no_report_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "breakdown_of", fails)

    assert CliRunner().invoke(main, ["analyze", str(SAMPLE)]).exit_code == 70


def test_an_error_of_the_user_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> NoReturn:
        raise UserError("the input cannot be used")

    monkeypatch.setattr(judge, "mfu_of", refused)
    with pytest.raises(UserError):
        analyze(SAMPLE)


def test_without_the_net_it_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(defects.VARIABLE, "raise")
    monkeypatch.setitem(REGISTRY, "tf32_share", replace(REGISTRY["tf32_share"], function=fails))

    with pytest.raises(KeyError):
        analyze(SAMPLE)
