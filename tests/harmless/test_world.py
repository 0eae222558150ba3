"""A command finds the world below `diagnose run` as it is without: the plain one plus exactly what is documented."""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harmless.parents import below, ended, environment, python
from needs import needs

from diagnose.capture.command import bootstrap_folder

OURS = str(bootstrap_folder())
MIRROR = """
import json, os, resource, signal, sys
modules, meta = sorted(sys.modules), [type(finder).__name__ for finder in sys.meta_path]
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
def masked(name):  # without 32 and 33: glibc takes these with the first thread
    return hex(int(status[name], 16) & ~(3 << 31))
def target(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return None
def stream(number):
    return (target(number) or "").partition(":")[0] if number < 3 else target(number)
world = {
    "environment": dict(os.environ),
    "descriptors": {number: stream(number) for number in range(64) if target(number)},
    "closed on exec": [n for n in range(3, 64) if target(n) and not os.get_inheritable(n)],
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name[:7] == "RLIMIT_"},
    "signals": {name: masked(name) for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd")},
    "handlers": {n: str(signal.getsignal(n)).partition(" at ")[0] for n in signal.valid_signals()},
    "umask": status["Umask"].strip(),
    "cwd": os.getcwd(),
    "path": sys.path,
    "importers": sorted(sys.path_importer_cache),
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "flags": list(sys.flags),
    "modules": modules,
    "finders": meta,
    "threads": status["Threads"].strip(),
    "nice": os.nice(0),
    "cores": sorted(os.sched_getaffinity(0)),
    "group": os.getpgrp() - os.getpid() if os.getpgrp() == os.getpid() else "the starter's",
    "session": os.getsid(0),
    "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getgroups()],
    "stdin": sys.stdin and sys.stdin.read(),
}
with open(os.environ.get("WORLD", "world.json"), "w") as file:
    json.dump(world, file)
"""
TRAINS = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(30):
    model(torch.ones(2, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
Prepare = Callable[[], None]


def nothing() -> None:
    pass


def as_nohup() -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def with_blocked_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM, signal.SIGRTMIN + 3})


def with_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
    resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, 16 << 20))
    os.umask(0o027)
    os.nice(3)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def with_descriptors() -> None:
    number = os.open("/etc/hostname", os.O_RDONLY)
    for other in (3, 7, 42):
        os.dup2(number, other)


def worlds(command: list[str], folder: Path, prepare: Prepare, env: dict[str, str]) -> list[dict[str, Any]]:
    """What the mirror sees without and with us."""
    options: dict[str, Any] = {"preexec_fn": prepare, "close_fds": False, "input": "typed", "stdin": None}
    found = []
    for words in (command, below(command)):
        done = ended(words, folder, env=env, **options)
        assert done.returncode == 0, done.stderr
        found.append(json.loads((folder / "world.json").read_text()))
        (folder / "world.json").unlink()
    return found


@pytest.mark.parametrize(
    "prepare", [nothing, as_nohup, with_blocked_signals, with_limits, with_descriptors], ids=lambda p: p.__name__
)
def test_the_world_is_the_plain_one_plus_what_is_documented(prepare: Prepare, tmp_path: Path) -> None:
    plain, ours = worlds(python(tmp_path, MIRROR), tmp_path, prepare, environment())
    added = {name: ours["environment"].pop(name) for name in set(ours["environment"]) - set(plain["environment"])}

    assert set(added) == {"PYTHONPATH", "PYTHON_DIAGNOSE", "PYTHON_DIAGNOSE_SEEN"}
    assert added["PYTHONPATH"] == OURS
    assert ours["finders"] == ["_AfterImport", *plain["finders"]]
    assert {name: ours[name] for name in plain if name != "finders"} == {
        name: plain[name] for name in plain if name != "finders"
    }


def test_a_job_that_was_captured_has_the_same_world_at_its_end(tmp_path: Path) -> None:
    """Of torch's job only modules are more, a thread of the profiler's, and those that look at stack and machine."""
    needs("torch")
    plain, ours = worlds(python(tmp_path, TRAINS + MIRROR), tmp_path, nothing, environment(OMP_NUM_THREADS="1"))
    differ = {"environment", "finders", "modules", "importers", "threads"}

    assert {name: ours[name] for name in plain if name not in differ} == {
        name: plain[name] for name in plain if name not in differ
    }
    assert set(plain["modules"]) <= set(ours["modules"])
    assert int(ours["threads"]) - int(plain["threads"]) in (0, 1, 2, 3)
    assert list((tmp_path / "diagnose-runs").glob("*/rank0.json.gz"))


@pytest.mark.parametrize("path", ["", ":", "a:", ":a", "a::b", "here", "a:a"])
def test_the_entries_of_pythonpath_keep_their_meaning(path: str, tmp_path: Path) -> None:
    plain, ours = worlds(python(tmp_path, MIRROR), tmp_path, nothing, environment(PYTHONPATH=path))

    assert ours["path"] == plain["path"]
    assert ours["environment"]["PYTHONPATH"] == (f"{OURS}:{path}" if path else OURS)


def test_a_module_of_the_current_folder_is_found_by_an_empty_entry(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "mine.py").write_text("print('mine')")
    (tmp_path / "scripts" / "t.py").write_text("import mine")

    assert ended(below([sys.executable, "scripts/t.py"]), tmp_path, env=environment(PYTHONPATH=":")).stdout == "mine\n"


def test_an_empty_environment_stays_as_it_is(tmp_path: Path) -> None:
    """Python itself sets a locale at its start, which a command that is not Python would not have."""
    options: dict[str, Any] = {"env": {"PATH": os.environ["PATH"]}}
    plain = ended(["/usr/bin/env"], tmp_path, **options).stdout.splitlines()
    ours = ended(below(["/usr/bin/env"]), tmp_path, **options).stdout.splitlines()

    assert [line for line in ours if not line.startswith("PYTHON")] == plain


def test_process_substitution_reaches_the_script(tmp_path: Path) -> None:
    command = " ".join(below(python(tmp_path, "import sys; print(open(sys.argv[1]).read())")))

    assert ended(["bash", "-c", f"{command} <(echo x)"], tmp_path).stdout == "x\n\n"


def test_what_the_script_starts_is_hooked_too(tmp_path: Path) -> None:
    hooked = "import sys; print(any(type(f).__name__ == '_AfterImport' for f in sys.meta_path))"
    body = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hooked!r}])"

    assert ended(below(python(tmp_path, body)), tmp_path, env=environment()).stdout == "True\n"
