"""A job that forks while the profiler runs, or after it did, has children that end as without us."""

from pathlib import Path

import pytest
from capture.bundles import marker
from capture.scripts import BARE, run, said
from needs import needs

needs("torch")

FORK = """
import atexit, ctypes, os, time
def child(number):
    atexit.register(lambda: print("atexit of the child", number, flush=True))
    model(torch.randn(2, 8)).sum().backward()
    ctypes.CDLL(None).printf(b"text of C\\n")
    %(end)s
def during(number):
    if number in (%(at)s):
        pid = os.fork()
        if not pid:
            child(number)
        limit = time.monotonic() + 200
        while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < limit:
            time.sleep(0.01)
        if not ended[0]:
            os.kill(pid, 9)
        print("child", number, os.waitstatus_to_exitcode(ended[1]) if ended[0] else "hangs", flush=True)
"""
ENDS = {
    "exits with a code": ("sys.exit(7)", "7"),
    "raises": ("raise ValueError('of the child')", "1"),
    "exits through the system": ("os._exit(5)", "5"),
    "dies of a signal": ("os.kill(os.getpid(), 15)", "-15"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("faulthandler", [False, True], ids=["", "faulthandler"])
def test_a_child_forked_in_and_after_the_window_ends_as_always(end: str, faulthandler: bool, tmp_path: Path) -> None:
    ending, code = ENDS[end]
    watched = "import faulthandler\nfaulthandler.enable()\n" if faulthandler else ""
    script = watched + BARE + FORK % {"end": ending, "at": "3, 7, 20"} + "loop()\nprint('trained')\n"
    expected = run(script, tmp_path / "plain")
    done = run(script, tmp_path / "probed", {"at_step": 6})

    assert [line for line in expected.stdout.splitlines() if line.startswith("child")] == [
        f"child {number} {code}" for number in (3, 7, 20)
    ]
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(expected.stdout.splitlines())), done.stderr
    assert said(done) == []
    assert marker(tmp_path / "probed" / "out")["trace"] == "rank0.json.gz"
    assert not (tmp_path / "probed" / "out-2").exists()


def test_what_a_child_computes_is_not_gathered(tmp_path: Path) -> None:
    """Callbacks of the profiler come along with a fork; a worker that trained on would fill its memory with events."""
    during = (
        "import os\n"
        "def during(number):\n"
        "    if number == 7 and os.fork() == 0:\n"
        "        with torch.autograd.profiler.record_function('of the child'):\n            torch.ones(3).add(1)\n"
        "        before = open('/proc/self/statm').read().split()[1]\n"
        "        for _ in range(100_000):\n            torch.ones(3)\n"
        "        grown = int(open('/proc/self/statm').read().split()[1]) - int(before)\n"
        "        print('pages', grown < 2000, flush=True)\n        os._exit(0)\n"
        "    if number == 8:\n        os.wait()\n"
    )
    done = run(BARE + during + "loop()\n", tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "pages True\n"), done.stderr
