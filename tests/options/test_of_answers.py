"""What `--json` prints, of real command lines: the answer of the command, by the schema that is registered for it."""

import json
from pathlib import Path

import jsonschema
import pytest
from needs import needs
from options.commands import options
from options.inputs import Inputs
from options.jobs import Jobs
from options.rows import Calls, Row, called
from options.tables import ROWS

from diagnose.commands.schema.command import answer_of, answering

ROWS_OF_JSON = {row.command: row for row in ROWS if row.option == "--json"}
BY_A_JOB = {"armed", "data", "run", "tune"}  # the answer of a job that the command starts, or of one that was armed


def assert_is_answer(text: str, command: str) -> None:
    """The text is one object with every key of the command's schema, and its version first."""
    found = json.loads(text)
    jsonschema.validate(found, answer_of(command).schema())
    assert next(iter(found)) == "schema_version"
    assert found["schema_version"] == answer_of(command).version()


@pytest.mark.parametrize("row", ROWS_OF_JSON.values(), ids=ROWS_OF_JSON)
def test_what_is_printed_keeps_to_the_schema_of_its_command(
    row: Row, inputs: Inputs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    printed = Calls(inputs, tmp_path_factory.mktemp("answers"))(row, row.with_it)

    assert_is_answer(printed.stdout, row.command)


def test_every_command_with_json_is_registered_and_tried_here() -> None:
    printing = {words[0] for words, option in options() if option.name == "as_json"}

    assert printing <= set(answering())
    assert set(answering()) == ROWS_OF_JSON.keys() | BY_A_JOB


@pytest.mark.parametrize("command", answering())
def test_the_version_is_the_first_key_of_every_answer(command: str) -> None:
    answer = answer_of(command)

    assert answer.__struct_fields__[0] == "schema_version"
    assert answer.version() >= 1


@pytest.mark.capture
def test_what_is_told_of_a_job_keeps_to_its_schema(jobs: Jobs, inputs: Inputs, tmp_path: Path) -> None:
    needs("torch", "transformers")

    assert_is_answer(called("analyze {armed} --json", inputs, {}, tmp_path).stdout, "armed")
    assert_is_answer(jobs("data-of-run").stdout, "data")
    assert_is_answer(jobs("tuned").text("t/tune.json"), "tune")
    assert_is_answer(jobs("told").text("found.jsonl").splitlines()[-1], "run")


@pytest.mark.capture
def test_a_job_has_its_diagnosis_written_to_a_file_by_the_same_schema(jobs: Jobs) -> None:
    needs("torch", "transformers")

    assert_is_answer(jobs("window").text("d.json"), "analyze")
