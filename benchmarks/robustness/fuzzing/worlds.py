"""What stands around a case: a patch that is read, an agent that asks, a job that is not run."""

import contextlib
import importlib
import io
import json
import os
import re
import shutil
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from diagnose.commands.agents.answers import Answers
from diagnose.commands.agents.roots import Roots
from diagnose.commands.tune.running import EndedRun
from diagnose.commands.tune.state import LOCK
from diagnose.errors import UserError
from diagnose.patch import patch_file
from diagnose.probes.pipeline.asked import MEASURED, LoadingRequest

from .checks import Wrong, check_text

LEFT = "measured.json"  # by the probe of the input, in a case
_LONGEST_ANSWER = 40_000  # characters; 4,000 tokens have fewer
_FRAME = re.compile(r'File "[^"]*?/(diagnose/[^"]+|probes/[^"]+)", line \d+, in (\S+)')


def named(told: str) -> str:
    """A defect by its error and the innermost function of ours, from the traceback on stderr."""
    frames = _FRAME.findall(told)
    where = f"{frames[-1][0].split('diagnose/')[-1]}:{frames[-1][1]}" if frames else "?"
    lines = [
        line for line in told.splitlines() if re.match(r"[\w.]+(Error|Exception|Warning|Wrong|Exit|Corrupt)\b", line)
    ]
    error = lines[0] if lines else told.strip().splitlines()[-1]
    kind, _, text = error.partition(":")
    return f"{kind.rsplit('.')[-1]} in {where}:{text[:120]}"


def patched(argument: str) -> str:
    """How reading a patch ends."""
    try:
        request = patch_file.read(argument)
        request.to_json(), request.variables({}), request.lines()
    except UserError as error:
        check_text(error.format_message())
        return "refused"
    except Exception as error:
        return f"DEFECT {named(''.join(traceback.format_exception(error)))}"
    return "read"


def asked(tool: str, arguments: str, place: Path) -> str:
    """How the question of an agent ends."""
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()):
        text, failed = Answers(Roots([place])).answer(tool, _as_arguments(arguments))
    if "bug in diagnose" in text:
        return f"DEFECT {named(told.getvalue())}"
    check_text(text + told.getvalue())
    if not text.strip() or len(text) > _LONGEST_ANSWER:
        raise Wrong(f"an answer of {len(text)} characters")
    return "refused" if failed else "read"


def _as_arguments(text: str) -> Any:
    """As the protocol gives them: an object."""
    found = json.loads(text)
    return found if isinstance(found, dict) else {"path": found}


@contextlib.contextmanager
def not_run(place: Path) -> Iterator[None]:
    """No job is started: what its probe would leave is in the files, and a run of a tune fails."""

    def measures(_argv: object, _inherited: object, of: LoadingRequest) -> int:
        shutil.copy(place / LEFT, Path(of.out) / MEASURED)
        return 0

    tune, data = (importlib.import_module(f"diagnose.commands.{name}.command") for name in ("tune", "data"))
    fails = mock.Mock(return_value=lambda *_: EndedRun("failed", 1, "it is not run", seconds=1.0))
    with mock.patch.object(tune, "JobRuns", fails), mock.patch.object(data, "run_until_measured", measures):
        try:
            yield
        finally:
            _let_go()


def _let_go() -> None:
    """Closes the locks of tunes, which live as long as their process."""
    for handle in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if LOCK in os.readlink(f"/proc/self/fd/{handle}"):
                os.close(int(handle))
