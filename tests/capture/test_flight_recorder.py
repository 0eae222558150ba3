"""`diagnose run` arms torch's flight recorder by unset variables alone, and says where its dumps are."""

import json
from pathlib import Path

import pytest
from capture.command_runs import WRITES, Start, ended, script
from needs import needs

from diagnose.probes.config import Config
from diagnose.probes.dumps.flight_recorder import variables

NEW = {
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_FR_DUMP_TEMP_FILE": "/out/flight-recorder-rank",
}
OLD = {
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/out/flight-recorder-rank",
}


@pytest.mark.parametrize(
    ("version", "wanted"), [((2, 13), NEW), ((2, 9), NEW), ((2, 8), OLD), ((2, 4), OLD), ((), OLD)]
)
def test_variables_have_the_names_of_the_version(version: tuple[int, ...], wanted: dict[str, str]) -> None:
    assert variables(Config("/out"), version, {}) == wanted


@pytest.mark.parametrize("name", [*NEW, *OLD])
def test_what_the_job_sets_under_any_name_stays(name: str) -> None:
    found = variables(Config("/out"), (2, 13), {name: "7"})

    assert set(found) == set(NEW) - {name, dict(zip(OLD, NEW, strict=True)).get(name)}


@pytest.mark.parametrize("name", ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"])
def test_a_recorder_that_the_job_turns_off_stays_off(name: str) -> None:
    assert variables(Config("/out"), (2, 13), {name: "0"}) == {}


def test_the_opt_out_sets_nothing() -> None:
    assert variables(Config("/out", flight_recorder=False), (2, 13), {}) == {}


LOOP = """
import json, os, torch
print(torch.__version__)
print(json.dumps({name: text for name, text in os.environ.items() if name.startswith(("TORCH_FR_", "TORCH_NCCL_"))}))
"""


@pytest.mark.parametrize(
    ("ranks", "options", "armed"),
    [("2", [], True), pytest.param("1", [], False, marks=pytest.mark.slow), ("2", ["--no-flight-recorder"], False)],
)
def test_a_rank_of_several_is_armed(ranks: str, options: list[str], armed: bool, start: Start, tmp_path: Path) -> None:
    needs("torch")
    alone = {"WORLD_SIZE": ranks, "RANK": "0"}

    code, out, _ = ended(start("--out", "b", *options, "--", script(tmp_path, LOOP), env=alone))

    torch_version, found = out.splitlines()[:2]
    wanted = OLD if tuple(map(int, torch_version.split(".")[:2])) < (2, 9) else NEW
    assert code == 0
    assert json.loads(found) == (
        {name: text.replace("/out", str(tmp_path / "b")) for name, text in wanted.items()} if armed else {}
    )


def test_dumps_in_the_bundle_are_told_with_what_to_type(start: Start, tmp_path: Path) -> None:
    body = WRITES + "write(0)\nopen(os.path.join(out, 'flight-recorder-rank0'), 'wb').close()\n"

    _, _, err = ended(start("--out", "b", "--no-report", "--", script(tmp_path, body)))

    assert f"diagnose hang {tmp_path / 'b'}" in err
