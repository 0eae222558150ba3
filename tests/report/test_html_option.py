"""`diagnose analyze --html FILE`: a page beside the report, whole or not at all."""

from pathlib import Path
from typing import Any

import drawn
import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.errors import UNUSABLE_INPUT


@pytest.fixture(autouse=True)
def _analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.analysis.analyze", lambda *_, **__: drawn.drawn())


def analyze(*args: Any) -> Result:
    return CliRunner().invoke(main, ["analyze", "run/", *map(str, args)])


def test_the_page_is_written_beside_the_report_and_says_where(tmp_path: Path) -> None:
    to = tmp_path / "report.html"

    done = analyze("--html", to, "--params", "1e9")

    assert done.exit_code == 0
    assert done.stdout.startswith("verdict   data-bound")
    assert done.stderr == f"wrote {to}\n"
    assert to.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"diagnose analyze run/ --html {to} --params 1000000000<" in to.read_text(encoding="utf-8")


def test_stdout_stays_one_json_object(tmp_path: Path) -> None:
    assert analyze("--html", tmp_path / "a.html", "--json").stdout == analyze("--json").stdout


def test_a_page_takes_the_place_of_an_older_one_and_keeps_its_permissions(tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    to.write_text("old")
    to.chmod(0o640)

    assert analyze("--html", to).exit_code == 0
    assert "old" not in to.read_text(encoding="utf-8")[:20]
    assert to.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_the_older_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "report.html"
    to.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    done = analyze("--html", to)

    assert done.exit_code == UNUSABLE_INPUT
    assert "why: No space left on device" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert to.read_text() == "old"


@pytest.mark.parametrize(("name", "why"), [(".", "it is a folder"), ("no/such/report.html", "does not exist")])
def test_what_cannot_be_written_is_said_before_the_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.setattr("diagnose.analysis.analyze", None)

    done = analyze("--html", tmp_path / name)

    assert done.exit_code == UNUSABLE_INPUT
    assert why in done.stderr


def test_secrets_of_a_url_are_not_written(tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    url = "https://user:pass@host/run/trace.json?X-Signature=abc123"

    CliRunner().invoke(main, ["analyze", url, "--html", str(to)])

    assert "host/run/trace.json" in to.read_text(encoding="utf-8")
    assert "abc123" not in to.read_text(encoding="utf-8")
    assert "pass@" not in to.read_text(encoding="utf-8")
