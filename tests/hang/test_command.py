"""`diagnose hang` on the dumps that are shipped, which gloo's recorder wrote of real jobs that hang."""

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.commands.hang.answer import Hang

DUMPS = Path(__file__).parents[2] / "sample_traces" / "dumps"


def hang(*args: object) -> Result:
    return CliRunner().invoke(main, ["hang", *map(str, args)])


@pytest.mark.parametrize(
    ("name", "kind", "blamed", "line"),
    [
        ("hang-missing-rank", "missing-rank", [2], "dist.all_reduce(gradients)"),
        ("hang-other-order", "order", [2], "pending = [dist.broadcast(weights, 0, async_op=True)"),
        ("hang-other-size", "size", [2], "dist.all_reduce(gradients)"),
        ("hang-desynchronised", "desynchronised", [2], "dist.all_reduce(gradients)"),
    ],
)
def test_real_dumps_name_the_rank_and_the_line(name: str, kind: str, blamed: list[int], line: str) -> None:
    found = hang(DUMPS / name, "--json")
    answer = json.loads(found.output)

    jsonschema.validate(answer, Hang.schema())
    assert (found.exit_code, answer["verdict"]) == (0, "hung")
    fault = answer["faults"][0]
    assert (fault["kind"], fault["blamed"], fault["number"]) == (kind, blamed, 7)
    at = fault["calls"][0]["line"]
    assert line in (DUMPS.parent / at["file"]).read_text().splitlines()[at["line"] - 1]


def test_the_text_names_rank_call_line_and_what_to_do() -> None:
    told = hang(DUMPS / "hang-missing-rank").output

    for words in (
        "verdict rank 2 is missing from all_reduce 7, in which ranks 0, 1 and 3 wait",
        "where rank 2 was last at hanging_job.py:33; ranks 0, 1 and 3 wait at hanging_job.py:39",
        "next See where rank 2 is while the job hangs: py-spy dump --pid PID",
        "queued, not started on the device",
        "ranks ranks 0, 1 and 3: 7 calls, 1 open",
    ):
        assert " ".join(told.split()).count(words) == 1


def test_a_rank_that_gloo_ended_left_no_dump_and_that_is_told() -> None:
    answer = json.loads(hang(DUMPS / "hang-other-size", "--json").output)

    assert answer["without_dump"] == [1]
    assert "what rank 1 did, because there is no dump of it" in answer["unknown"]


def test_a_job_that_stood_still_between_two_dumps_hangs() -> None:
    same = DUMPS / "hang-missing-rank"

    assert "verdict   rank 2 is missing" in hang(same, "--earlier", same).output


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\x80\x02cos\nsystem\n(X\x01\x00\x00\x00xtR.", "asks for os.system"),
        (b"{}", "holds no entries"),
        (b"{", "damaged JSON"),
        (b"[" * 100_000, "damaged JSON"),
        (b"text", "neither a pickle nor JSON"),
    ],
)
def test_a_folder_without_a_usable_dump_is_refused_with_the_reason(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(content)

    found = hang(tmp_path)

    assert found.exit_code == 3
    assert why in found.output


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    assert hang(tmp_path / "none").exit_code == 3
