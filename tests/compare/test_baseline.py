"""`diagnose baseline`: what it keeps, and what it says of a later run."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from compared_runs import SAMPLES, run, side
from msgspec.structs import replace

from diagnose.cli import main
from diagnose.commands.compare.baseline import baseline_file, kept, read, written
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.regression import regression
from diagnose.errors import UserError

LOADER, HEALTHY = str(SAMPLES / "cpu-slow-loader.json.gz"), str(SAMPLES / "cpu-healthy.json.gz")


SLOWER = [(1.04, 0.05, False), (1.08, 0.05, True), (1.08, 0.1, False)]
DAMAGED = ["", "{}", "[1]", '{"schema_version": 9, "source": "a", "kind": "log"}', "[" * 99_999]


def invoke(folder: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["baseline", *args, "--dir", str(folder)])


def test_what_is_saved_is_what_is_read_back(tmp_path: Path) -> None:
    saved = invoke(tmp_path / "kept", "save", "loop", HEALTHY)

    assert saved.exit_code == 0
    assert read(tmp_path / "kept" / "loop.json") == kept(side(Path(HEALTHY)), "loop")


@pytest.mark.parametrize("content", ['{"schema_version": 1, "my": "settings"}', "notes", ""])
def test_a_file_that_is_no_baseline_keeps_its_place(content: str, tmp_path: Path) -> None:
    (tmp_path / "loop.json").write_text(content)

    refused = invoke(tmp_path, "save", "loop", HEALTHY)

    assert (refused.exit_code, (tmp_path / "loop.json").read_text()) == (3, content)
    assert "what is there is no baseline" in refused.stderr


def test_a_baseline_is_saved_anew(tmp_path: Path) -> None:
    assert [invoke(tmp_path, "save", "loop", trace).exit_code for trace in (LOADER, HEALTHY)] == [0, 0]
    assert read(tmp_path / "loop.json") == kept(side(Path(HEALTHY)), "loop")


def test_the_file_is_small_and_the_same_for_the_same_trace(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(HEALTHY, elsewhere / "renamed.json.gz")
    invoke(tmp_path / "one", "save", "loop", HEALTHY)
    invoke(tmp_path / "other", "save", "loop", str(elsewhere / "renamed.json.gz"))

    one, other = ((tmp_path / name / "loop.json").read_bytes() for name in ("one", "other"))

    assert one == other
    assert len(one) < 40_000
    assert one.endswith(b"}\n")


def test_it_names_no_path_and_no_host() -> None:
    setup = {
        "environment.NCCL_TOPO": "/home/me/topo.xml",
        "training_arguments.url": "s3://mine",
        "ddp.bucket_cap_mb": 25,
    }
    private = replace(side(SAMPLES / "gloo-slow-rank"), source="/home/me/run", setup=setup)

    content = written(kept(private, "loop")).decode()

    assert "/home/me" not in content
    assert "s3://" not in content
    assert json.loads(content)["setup"] == {"ddp.bucket_cap_mb": 25}


def test_a_run_that_is_not_slower_passes(tmp_path: Path) -> None:
    invoke(tmp_path, "save", "loop", LOADER)

    same, faster = (invoke(tmp_path, "check", "loop", path) for path in (LOADER, HEALTHY))

    assert (same.exit_code, faster.exit_code) == (0, 0)
    assert "no difference" in same.stdout
    assert "faster (sure: " in faster.stdout


def test_a_slower_run_ends_with_1_and_the_reason(tmp_path: Path) -> None:
    invoke(tmp_path, "save", "loop", HEALTHY)

    slower = invoke(tmp_path, "check", "loop", LOADER, "-q")

    assert slower.exit_code == 1
    assert slower.stdout.startswith("B is ")
    assert "regression: the step takes" in slower.stderr


def test_the_page_names_the_options_that_it_was_made_with(tmp_path: Path) -> None:
    invoke(tmp_path, "save", "loop", LOADER)

    invoke(tmp_path, "check", "loop", LOADER, "-q", "--markdown", str(tmp_path / "page.md"))

    assert f"diagnose baseline check loop {LOADER} " in (tmp_path / "page.md").read_text()
    assert " --quiet " in (tmp_path / "page.md").read_text()


def test_another_job_ends_with_1_and_the_reason(tmp_path: Path) -> None:
    invoke(tmp_path, "save", "loop", HEALTHY)

    other = invoke(tmp_path, "check", "loop", str(SAMPLES / "synthetic-straggler"))

    assert other.exit_code == 1
    assert "regression: the runs cannot be compared: " in other.stderr


@pytest.mark.parametrize(
    ("slower_by", "tolerance", "fails"), [(1.04, 0.05, False), (1.08, 0.05, True), (1.08, 0.1, False)]
)
def test_the_tolerance_is_of_the_step(slower_by: float, tolerance: float, fails: bool) -> None:
    found = compare(run(100, 100, 100, 100), run(*4 * (100 * slower_by,)))

    assert bool(regression(found, tolerance)) == fails


def test_a_missing_baseline_says_how_to_make_one(tmp_path: Path) -> None:
    missing = invoke(tmp_path, "check", "loop", HEALTHY)

    assert missing.exit_code == 3
    assert "diagnose baseline save loop" in missing.stderr


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "x" * 101, "new\nline"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="not a valid name of a baseline"):
        baseline_file(tmp_path, name)


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"schema_version": 9, "source": "a", "kind": "log"}', "[" * 99_999]
)
def test_a_damaged_baseline_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "loop.json").write_text(content)

    refused = invoke(tmp_path, "check", "loop", HEALTHY)

    assert refused.exit_code == 3
    assert "cannot use the baseline" in refused.stderr


def test_a_number_that_no_double_holds_is_refused(tmp_path: Path) -> None:
    invoke(tmp_path, "save", "loop", HEALTHY)
    kept = json.loads((tmp_path / "loop.json").read_text())
    (tmp_path / "loop.json").write_text(json.dumps(kept | {"setup": {"optimizer.groups": 10**400}}))

    refused = invoke(tmp_path, "check", "loop", HEALTHY)

    assert (refused.exit_code, "a number of a hundred digits" in refused.stderr) == (3, True)


def test_a_log_of_steps_can_be_a_baseline(tmp_path: Path) -> None:
    fast, slow = tmp_path / "fast.csv", tmp_path / "slow.csv"
    for path, ms in ((fast, 100), (slow, 120)):
        path.write_text("step,step_time_ms\n" + "".join(f"{n},{ms + n % 3}\n" for n in range(1, 41)))
    invoke(tmp_path, "save", "log", str(fast))

    assert invoke(tmp_path, "check", "log", str(fast)).exit_code == 0
    assert invoke(tmp_path, "check", "log", str(slow)).exit_code == 1
