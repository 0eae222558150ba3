"""What a signal handler of the job raises reaches the job, whatever the probe does; the job's signals stay its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from capture.bundles import marker
from capture.scripts import BARE, run
from needs import needs

needs("torch")

SIGNALS = 200
HANDLERS = {
    "a function": "def handler(number, frame):\n    raise Preempted",
    "a method": "class Own:\n    def handle(self, number, frame):\n        raise Preempted\nhandler = Own().handle",
    "an object": "class Own:\n    def __call__(self, number, frame):\n        raise Preempted\nhandler = Own()",
    "a partial": "def own(what, number, frame):\n    raise what\nhandler = partial(own, Preempted)",
    "any arguments": "def handler(*given):\n    raise Preempted",
    "one that resets itself": (
        "def handler(number, frame):\n    signal.signal(number, signal.SIG_DFL)\n    raise Preempted"
    ),
    "one that forgets its arguments": "def handler(number, frame):\n    number = frame = None\n    raise Preempted",
    "a deeper call": "def deep():\n    raise Preempted\ndef handler(number, frame):\n    deep()",
}
RAISED = ["class Preempted(Exception): pass", "Preempted = TimeoutError", "class Preempted(SystemExit): pass"]

WINDOWS = """
import os, random, signal, sys, threading, time
from functools import partial
import torch
from diagnose.probes import interrupts, session as sessions
from diagnose.probes.config import Config
sessions.MOST_WINDOWS = 10**9
torch.set_num_threads(1)
random.seed(7)
%(raised)s
%(handler)s
current = sessions.Session(Config(sys.argv[1] + "/out", steps=1, warmup=1, skip=1, control=0))
sent = reached = within = 0
def counting(*given):
    global sent
    sent += 1
    handler(*given)
def window():
    current.loop_begins("code")
    for _ in range(5):
        torch.ones(4).add(1)
        current.step_ended()
    current.loop_ended()
window()
def lasts():
    began = time.perf_counter()
    window()
    return time.perf_counter() - began
length = min(lasts() for _ in range(5))  # where the machine was busy meanwhile, a signal would come after the window
def whose(error):
    step, files = error.__traceback__, []
    while step is not None:
        files.append(step.tb_frame.f_code.co_filename)
        step = step.tb_next
    return any(os.path.dirname(file) == os.path.dirname(interrupts.__file__) for file in files)
while sent < %(signals)d:
    before = sent
    signal.signal(signal.SIGALRM, counting if %(counting)d else handler)
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, length))
    if not %(counting)d:
        sent += 1
    try:
        window()
        for _ in range(10**9):
            pass
    except Preempted as error:
        reached += 1
        within += whose(error)
print(sent, reached, within > sent // 4)
"""


@pytest.mark.parametrize(
    "raised",
    [
        pytest.param(RAISED[0], id="own"),
        pytest.param(RAISED[1], id="builtin", marks=pytest.mark.slow),
        pytest.param(RAISED[2], id="exit", marks=pytest.mark.slow),
    ],
)
def test_no_exception_of_a_handler_is_lost(raised: str, tmp_path: Path) -> None:
    script = WINDOWS % {"raised": raised, "handler": HANDLERS["a function"], "signals": SIGNALS, "counting": 1}
    done = run(script, tmp_path)

    assert (done.returncode, done.stdout) == (0, f"{SIGNALS} {SIGNALS} True\n"), done.stderr


@pytest.mark.parametrize("kind", HANDLERS)
def test_no_kind_of_handler_is_mistaken_for_the_probe(kind: str, tmp_path: Path) -> None:
    """One signal after the other, the handler in place alone: nothing counts but what arrives."""
    script = WINDOWS % {"raised": RAISED[1], "handler": HANDLERS[kind], "signals": 40, "counting": 0}
    done = run(script, tmp_path)

    assert (done.returncode, done.stdout) == (0, "40 40 True\n"), done.stderr


COLLECTIVE = """
import os, time
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=0, world_size=2)
def during(number):
    if number == 7:
        print("blocked", flush=True)
        dist.barrier()
"""


def test_the_default_action_ends_a_rank_that_waits_in_a_collective(tmp_path: Path) -> None:
    """The other rank has come up and never calls the barrier."""
    store = (
        "import os, sys, time, torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='file://' + os.environ['MEET'], rank=1, world_size=2)\n"
        "time.sleep(600)\n"
    )
    script = tmp_path / "train.py"
    script.write_text(BARE + COLLECTIVE + "loop()\n")
    (tmp_path / "other.py").write_text(store)
    environment = os.environ | {"MEET": str(tmp_path / "meet"), "OMP_NUM_THREADS": "1", "RANK": "0", "WORLD_SIZE": "2"}
    window = f'{{"out": "{tmp_path / "out"}", "at_step": 6}}'
    other = subprocess.Popen([sys.executable, str(tmp_path / "other.py")], env=environment)
    job = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env=environment | {"PYTHON_DIAGNOSE": window},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == "blocked\n"
        time.sleep(1)
        job.send_signal(signal.SIGTERM)
        assert job.wait(300) == -signal.SIGTERM  # the barrier itself gives up after half an hour
    finally:
        for process in (job, other):
            process.kill()
            process.wait()
        if job.stdout is not None:
            job.stdout.close()


def test_no_disposition_changes_in_any_phase(tmp_path: Path) -> None:
    looked = (
        "import faulthandler, signal\n"
        "def now():\n"
        "    python = [repr(signal.getsignal(n)) for n in sorted(signal.valid_signals())]\n"
        "    lines = [l.split() for l in open('/proc/self/status') if l.startswith(('SigBlk', 'SigIgn', 'SigCgt'))]\n"
        "    return python, [int(mask, 16) & 0x7FFFFFFF for _, mask in lines]  # above: the C library's own\n"
        "faulthandler.register(signal.SIGUSR1, chain=True)\n"
        "signal.signal(signal.SIGUSR2, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, lambda *given: None)\nbefore = now()\n"
        "def during(number):\n    assert now() == before\n"
    )
    done = run(BARE + looked + "loop()\nprint('trained')\n", tmp_path, {})

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"


def test_a_job_that_saves_and_leaves_on_a_signal_does_so_in_the_window(tmp_path: Path) -> None:
    preempted = (
        "import os, signal\n"
        "class Preempted(Exception): pass\n"
        "def handler(number, frame):\n    raise Preempted\n"
        "signal.signal(signal.SIGTERM, handler)\n"
        "def during(number):\n    if number == 7:\n        os.kill(os.getpid(), signal.SIGTERM)\n"
        "try:\n    loop()\nexcept Preempted:\n    print('saved', flush=True)\n    sys.exit(3)\n"
    )
    done = run(BARE + preempted, tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (3, "saved\n"), done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"  # written at the exit
