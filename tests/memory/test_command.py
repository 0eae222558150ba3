"""`diagnose memory` on the snapshots that are shipped."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.commands.memory.answer import MemoryAnswer

DUMPS = Path(__file__).parents[2] / "sample_traces" / "dumps"


def memory(*args: object) -> Result:
    return CliRunner().invoke(main, ["memory", *map(str, args)])


@pytest.mark.parametrize(
    ("name", "findings"),
    [("oom", ["fragmentation", "out-of-memory"]), ("healthy", []), ("empty-cache", ["empty-cache-in-the-loop"])],
)
def test_the_shipped_snapshots(name: str, findings: list[str]) -> None:
    done = memory(DUMPS / f"synthetic-memory-{name}.pickle", "--json")
    answer = json.loads(done.output)

    jsonschema.validate(answer, MemoryAnswer.schema())
    assert done.exit_code == 0
    assert [finding["name"] for finding in answer["findings"]] == findings


def test_the_text_has_the_peak_the_line_and_what_to_do() -> None:
    told = " ".join(memory(DUMPS / "synthetic-memory-oom.pickle").output.split())

    for words in (
        "verdict out of memory at train.py:32: 60 MiB wanted; 112 MiB are free in the cache, in pieces of at most 8",
        "next Set PYTORCH_ALLOC_CONF=expandable_segments:True",
        "peak 240 MiB: activations 144 MiB (train.py:31, 60 %)",
    ):
        assert told.count(words) == 1


def test_an_oom_and_the_pieces_that_caused_it_are_one_finding() -> None:
    told = memory(DUMPS / "synthetic-memory-oom.pickle").output

    assert told.count("expandable_segments:True") == 1
    assert told.lower().count("out of memory") == 1


def test_of_a_run_the_snapshot_of_the_oom_goes_first_and_the_ledger_is_asked_for(tmp_path: Path) -> None:
    shutil.copy(DUMPS / "synthetic-memory-healthy.pickle", tmp_path / "a.pickle")
    shutil.copy(DUMPS / "synthetic-memory-oom.pickle", tmp_path / "oom.pickle")

    answer = json.loads(memory(tmp_path, "--json").output)

    assert answer["file"].endswith("oom.pickle")
    assert [Path(other).name for other in answer["others"]] == ["a.pickle"]
    assert answer["not_counted"] == "there are no traces of the run beside the snapshot"


def test_of_a_run_with_traces_the_ledger_is_counted_or_it_is_said_why_not(tmp_path: Path) -> None:
    shutil.copy(DUMPS / "synthetic-memory-healthy.pickle", tmp_path / "a.pickle")
    shutil.copy(DUMPS.parent / "synthetic-compute-bound.json.gz", tmp_path)

    answer = json.loads(memory(tmp_path, "--json").output)

    assert answer["counted"] or answer["not_counted"]
    assert "no traces" not in answer["not_counted"]


@pytest.mark.parametrize("path", ["none", "."])
def test_what_is_not_there_is_refused(path: str, tmp_path: Path) -> None:
    assert memory(tmp_path / path).exit_code == 3
