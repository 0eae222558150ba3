"""An agent of the official SDK, and the folder that it may ask about."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from integrations.told import SAMPLES

from diagnose.commands.agents.answers import Answers
from diagnose.commands.agents.roots import Roots

TRACE = "cpu-slow-loader.json.gz"
FIT = {"model": "llama-3.1-8b", "gpu": "H100", "gpus": 8}
SECRET = "a-secret-of-the-host"
Asked = Callable[[Any], Awaitable[Any]]


def session(answers: Answers | list[str], asked: Asked) -> Any:
    """What `asked` returns of a client of these answers, or of the server that the command line starts.

    That one may start slowly, and is greeted as older clients do, who wait for as long as it takes.
    """
    import anyio
    from mcp import Client, StdioServerParameters

    from diagnose.commands.agents.server import server_of

    server = (
        server_of(answers)
        if isinstance(answers, Answers)
        else StdioServerParameters(command=answers[0], args=answers[1:])
    )

    async def connected() -> Any:
        async with Client(server, mode="auto" if isinstance(answers, Answers) else "legacy") as client:
            return await asked(client)

    return anyio.run(connected)


def told(root: Path, name: str, /, **arguments: Any) -> tuple[str, bool]:
    """The text of one answer, and whether it is an error."""
    result = session(Answers(Roots([root])), lambda client: client.call_tool(name, arguments))
    (block,) = result.content
    return block.text, result.is_error


def refused(root: Path, name: str = "analyze", /, **arguments: Any) -> str:
    text, failed = told(root, name, **arguments)
    assert failed, text
    return text


def runs_in(tmp_path: Path) -> Path:
    """A folder with runs, beside one with a secret trace."""
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(SAMPLES / TRACE, tmp_path / "elsewhere" / f"{SECRET}.json.gz")
    runs = tmp_path / "runs"
    runs.mkdir()
    shutil.copy(SAMPLES / TRACE, runs)
    return runs
