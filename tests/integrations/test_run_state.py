"""The state of a run's folder as a resource of `diagnose mcp`, read while real jobs run and afterwards."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from integrations.asked import session
from needs import needs

from diagnose.commands.agents.answers import Answers
from diagnose.commands.agents.roots import Roots
from diagnose.probes.protocol import HANG_DUMP

needs("mcp")
needs("torch")
PATIENCE_S = 300  # longer than any busy machine needs
TRAINS = """
import pathlib, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100_000):
    model(torch.ones(4, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.001)
    if step > 200 and pathlib.Path("enough").exists():
        break
"""


def started(folder: Path, *options: str) -> "subprocess.Popen[str]":
    """`diagnose run` of a job that goes on until there is a file `enough`; its folder is runs/job."""
    (folder / "train.py").write_text(TRAINS)
    words = [sys.executable, "-m", "diagnose", "run", "--out", "runs/job", *options, "--", sys.executable, "train.py"]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


async def state(client: Any, name: str = "job") -> dict[str, Any]:
    """The state of a run in the root, as the client reads it."""
    return json.loads((await client.read_resource(f"diagnose://run/{name}")).contents[0].text)


async def awaited(client: Any, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The first state for which that holds."""
    import anyio

    with anyio.fail_after(PATIENCE_S):
        while not holds(found := await state(client)):
            await anyio.sleep(0.2)
    return found


@pytest.mark.capture
@pytest.mark.parametrize(("options", "is_armed"), [((), False), (("--arm", "--at-step", "60"), True)])
def test_a_run_is_told_while_it_goes_on_and_when_it_has_ended(
    options: tuple[str, ...], is_armed: bool, tmp_path: Path
) -> None:
    job = started(tmp_path, *options)
    until = time.monotonic() + PATIENCE_S
    while not (tmp_path / "runs" / "job" / ".diagnose").exists() and time.monotonic() < until:
        time.sleep(0.1)

    async def asked(client: Any) -> list[Any]:
        while_it_runs = await awaited(client, lambda one: one["steps"] if is_armed else one["verdict"])
        listed = [one.uri for one in (await client.list_resources()).resources]
        (tmp_path / "enough").touch()
        job.communicate(timeout=PATIENCE_S)
        return [while_it_runs, await state(client), listed, await state(client, listed[0].split("run/", 1)[1])]

    try:
        command = [sys.executable, "-m", "diagnose", "mcp", "--root", str(tmp_path / "runs")]
        before, after, listed, by_list = session(command, asked)
    finally:
        job.kill()

    assert job.returncode == 0
    assert listed == [f"diagnose://run/{tmp_path}/runs/job"]
    assert (before["unended"], after["unended"], by_list) == (True, False, after)
    assert (before["stood_still"], after["stood_still"]) == (False, False)
    if is_armed:
        assert before["do"] == "read this again while the job runs"
        assert 200 <= after["steps"][0] == after["steps"][1] >= before["steps"][1]
        assert [(one["folder"], one["verdict"] is None) for one in after["windows"]] == [("step-60", False)]
        assert (after["verdict"], after["do"]) == (None, "call analyze")
    else:
        assert (before["ranks"], before["traced"], before["failed"], before["steps"]) == (1, 1, {}, None)
        assert (before["do"], after["do"], after["windows"]) == ("call plan", "call plan", [])
        assert after["verdict"] == before["verdict"]


def test_a_rank_that_failed_and_a_hang_are_told(tmp_path: Path) -> None:
    run = tmp_path / "with blanks"
    run.mkdir()
    (run / "rank1.done").write_text(json.dumps({"rank": 1, "world_size": 2, "error": "no room"}))
    (run / HANG_DUMP.format(0)).touch()

    told = session(Answers(Roots([tmp_path])), lambda client: state(client, f"{tmp_path}/with%20blanks"))

    assert (told["ranks"], told["traced"], told["failed"]) == (2, 0, {"1": "no room"})
    assert (told["stood_still"], told["do"]) == (True, f"diagnose hang '{run}'")


def test_what_is_no_run_is_refused_in_words_and_not_listed(tmp_path: Path) -> None:
    from mcp import MCPError

    root = tmp_path / "runs"
    for name in ("empty", "job/step-14"):
        (root / name).mkdir(parents=True)
        (root / name / "rank0.json.gz").touch()
    (root / "job" / "step-14" / "diagnosis.json").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rank0.done").touch()
    (root / "link").symlink_to(tmp_path / "elsewhere")

    refused = {"empty": "no folder of a run", "job/step-14": "no folder of a run", "gone": "no such file or folder"}
    refused |= dict.fromkeys(("link", "../elsewhere", "%2Fetc"), "outside the folders that may be read")

    async def asked(client: Any) -> list[Any]:
        for name, says in {**refused, "a%00b": "no path"}.items():
            with pytest.raises(MCPError, match=says):
                await state(client, name)
        return (await client.list_resources()).resources

    assert session(Answers(Roots([root])), asked) == []
