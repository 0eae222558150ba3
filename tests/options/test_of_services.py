"""`--scheduler` with a cluster of Dask on this machine, and `--root` with an agent of the official SDK."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integrations.asked import session
from needs import needs
from options.inputs import Inputs
from options.jobs import PROGRAM
from options.of_services import SCHEDULED
from options.rows import SAMPLES, called

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and a worker process."""
    needs("distributed")
    import distributed

    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as made:
        yield made


@pytest.mark.filterwarnings("ignore")  # distributed warns of sockets and event loops that it closes itself
@pytest.mark.parametrize("command", SCHEDULED)
def test_the_traces_are_read_by_the_cluster(command: str, cluster: Any, inputs: Inputs, tmp_path: Path) -> None:
    before = cluster.scheduler.transition_counter
    alone = called(f"{command} {SCHEDULED[command]}", inputs, {}, tmp_path)
    done_by_others = cluster.scheduler.transition_counter - before
    line = f"{command} --scheduler {cluster.scheduler_address} {SCHEDULED[command]}"
    scheduled = called(line, inputs, {}, tmp_path)

    assert (scheduled.code, scheduled.stdout) == (alone.code, alone.stdout), scheduled.stderr
    assert (done_by_others, cluster.scheduler.transition_counter > before) == (0, True)


def test_an_agent_reads_what_is_below_the_root_and_nothing_else(tmp_path: Path) -> None:
    needs("mcp")
    inside, outside = tmp_path / "runs", tmp_path / "secret"
    for folder in (inside, outside):
        folder.mkdir()
        shutil.copy(SAMPLES / "cpu-slow-loader.json.gz", folder)

    async def asked(client: Any) -> list[Any]:
        return [await client.call_tool("analyze", {"path": str(folder)}) for folder in (inside, outside)]

    seen, refused = session([str(PROGRAM), "mcp", "--root", str(inside)], asked)

    assert (seen.is_error, refused.is_error) == (False, True)
    assert "data-bound" in seen.content[0].text
