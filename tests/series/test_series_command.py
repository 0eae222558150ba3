"""`diagnose series`: what is printed."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from diagnose.cli import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Eight ranks on two hosts; the second slows down at step 200."""
    seeded, path = np.random.default_rng(0), tmp_path / "steps.csv"
    with path.open("w") as file:
        file.write("step,rank,host,step_time_s\n")
        for step in range(1, 401):
            for rank in range(8):
                slow = 1.14 if rank >= 4 and step >= 200 else 1
                file.write(
                    f"{step},{rank},[bold]n{rank // 4}\x1b[31m,{0.3 * slow * np.exp(0.02 * seeded.normal()):.5f}\n"
                )
    return path


def test_the_page_names_step_size_host_and_window_and_prints_markup_as_it_is(log: Path) -> None:
    page = CliRunner().invoke(main, ["series", str(log)])

    text = " ".join(page.stdout.split())
    assert page.exit_code == 0
    assert "since step 200: 14 % slower on [bold]n1\\x1b[31m" in text
    assert "diagnose run --at-step 2" in text
    assert "\x1b" not in page.stdout


def test_json(log: Path) -> None:
    found = json.loads(CliRunner().invoke(main, ["series", str(log), "--json"]).stdout)

    assert found["changes"][0]["ranks"] == [4, 5, 6, 7]
    assert found["not_told"] is None


def test_a_missing_file_is_an_error_for_users(tmp_path: Path) -> None:
    page = CliRunner().invoke(main, ["series", str(tmp_path / "none.csv")])

    assert page.exit_code == 3
    assert "no such file or folder" in page.stderr


def test_the_columns_can_be_named(tmp_path: Path) -> None:
    log = tmp_path / "laps.csv"
    log.write_text("n,lap\n" + "".join(f"{n},{0.3 if n < 200 else 0.4}\n" for n in range(1, 401)))

    page = CliRunner().invoke(main, ["series", str(log), "--step-column", "n", "--time-column", "lap"])

    assert "since step 200: 33 % slower" in " ".join(page.stdout.split())
