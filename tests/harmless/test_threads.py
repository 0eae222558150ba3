"""Jobs with several threads, event loops and watchdogs: what they do to the probe is not done to them."""

import subprocess
import sys
from pathlib import Path

import pytest
from capture.scripts import BARE, TRAINER, run, said
from needs import needs

needs("torch")


@pytest.mark.slow
def test_optimizers_in_many_threads_raise_nothing(tmp_path: Path) -> None:
    script = (
        "import threading\n"
        "sys.setswitchinterval(1e-6)\nerrors = []\n"
        "def work():\n"
        "    try:\n"
        "        for _ in range(150):\n"
        "            own = nn.Linear(2, 2)\n            optimizer = torch.optim.SGD(own.parameters(), lr=0.1)\n"
        "            own(torch.randn(1, 2)).sum().backward()\n            optimizer.step()\n"
        "    except BaseException as error:\n        errors.append(repr(error))\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\n"
        "print(errors)\n"
    )
    done = run(BARE + script, tmp_path, {"at_step": 100_000})

    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("kind", ["TimeoutError", "SystemExit", "Own"])
def test_an_exception_that_another_thread_sets_arrives(kind: str, tmp_path: Path) -> None:
    """While the training thread waits for a trace to be written."""
    script = (
        "import ctypes, threading, time\n"
        "class Own(Exception): pass\n"
        "from diagnose.probes.recording import recorder\n"
        "trainer, write = threading.get_ident(), recorder.write_trace\n"
        "def slow(*given):\n"
        f"    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(trainer), ctypes.py_object({kind}))\n"
        "    time.sleep(0.2)\n    return write(*given)\n"
        "recorder.write_trace = slow\n"
        f"try:\n    loop()\nexcept {kind}:\n    print('arrived')\n"
    )
    done = run(BARE + script, tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "arrived\n"), done.stderr
    assert said(done) == []


def test_an_event_loop_handles_each_signal_once(tmp_path: Path) -> None:
    """Each comes while a profiler starts, and its byte is in the loop's pipe by then."""
    script = (
        "import asyncio, os, signal, torch.profiler\n"
        "handled, start = [], torch.profiler.profile.start\n"
        "started = 0\n"
        "def signalled(self):\n    global started\n    started += 1\n"
        "    os.kill(os.getpid(), signal.SIGUSR1)\n    return start(self)\n"
        "torch.profiler.profile.start = signalled\n"
        "async def main():\n"
        "    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: handled.append(1))\n"
        "    for _ in range(20):\n"
        "        model(torch.randn(2, 8)).sum().backward()\n        optimizer.step()\n"
        "        await asyncio.sleep(0.001)\n"
        "    await asyncio.sleep(0.1)\n"
        "asyncio.run(main())\nprint(len(handled) == started > 0)\n"
    )
    done = run(BARE + script, tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_trainer_is_pickled_as_without_us(tmp_path: Path) -> None:
    needs("transformers")
    script = (
        "import pickle\n"
        "handler = pickle.loads(pickle.dumps(trainer(Trainer).callback_handler))\n"
        "print([type(each).__module__.partition('.')[0] for each in handler.callbacks])\n"
    )
    expected = run(TRAINER + script, tmp_path / "plain")
    done = run(TRAINER + script, tmp_path / "probed", {})

    assert expected.returncode == 0, expected.stderr
    assert done.returncode == 0, done.stderr
    assert "diagnose" not in done.stdout


def test_a_warning_that_is_shown_once_stays_so(tmp_path: Path) -> None:
    during = "import warnings\ndef during(number):\n    warnings.warn('careful')\n"
    expected = run(BARE + during + "loop()\n", tmp_path / "plain")
    done = run(BARE + during + "loop()\n", tmp_path / "probed", {})

    assert expected.stderr.count("careful\n") == done.stderr.count("careful\n") == 1


def test_a_lazy_batch_is_not_looked_at(tmp_path: Path) -> None:
    script = (
        "calls = 0\n"
        "class Lazy:\n"
        "    @property\n"
        "    def __class__(self):\n        global calls\n        calls += 1\n        return torch.Tensor\n"
        "rows = torch.utils.data.DataLoader(range(60), collate_fn=lambda rows: Lazy())\n"
        "for _ in rows:\n    model(torch.randn(2, 8)).sum().backward()\n    optimizer.step()\n"
        "print(calls)\n"
    )
    done = run(BARE + script, tmp_path, {})

    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


NO_THREADS = """
import _thread, threading
def none(*given, **named):
    raise RuntimeError("can't start new thread")
_thread.start_new_thread = threading._start_new_thread = threading._start_joinable_thread = none
"""
LOOP = """
torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


@pytest.mark.parametrize("options", [[], ["--arm"]], ids=["once", "armed"])
def test_a_job_that_gets_no_thread_ends_as_it_does_alone(options: list[str], tmp_path: Path) -> None:
    """No thread to sample stacks, to read the machine, to write step times: what they would tell is unknown."""
    script = tmp_path / "train.py"
    script.write_text(f"import torch\nfrom torch import nn\n{NO_THREADS}{LOOP}")
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)

    words = [sys.executable, "-m", "diagnose", "run", "--out", tmp_path / "out", *options, "--no-report", "--"]
    done = subprocess.run([*words, sys.executable, script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, alone.stdout), done.stderr
    assert "Traceback" not in done.stderr
