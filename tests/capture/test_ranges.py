"""Each range reaches both listeners under one name: record_function in a Kineto trace, NVTX in a tool built here."""

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from capture.bundles import ranges as recorded
from capture.scripts import TRAINER, run
from needs import needs

from diagnose.probes.hand_over import wrapping
from diagnose.probes.recording import ranges
from diagnose.probes.recording.ranges import Range, StepRange, within, wrap_method

torch = pytest.importorskip("torch")

COMPILER = shutil.which("gcc") or shutil.which("cc")
SOURCE = Path(__file__).parent / "nvtx_counter.c"


class Base:
    def work(self, number: int) -> int:
        """Twice the number."""
        return 2 * number


class Derived(Base):
    def work(self, number: int) -> int:
        return super().work(number) + 1


def traced(folder: Path) -> Counter[tuple[str, str]]:
    """Name and category of the events that a wrapped call and a step leave in a trace."""
    step = StepRange()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        step.next()
        assert Derived().work(3) == 7
        step.end()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return Counter((event["name"], event["cat"]) for event in events if event["name"].startswith("diagnose."))


def test_a_range_is_a_user_annotation_and_super_opens_no_second_one(tmp_path: Path) -> None:
    for kind in (Base, Derived):
        wrap_method(kind, "work", ranges.FORWARD)
        wrap_method(kind, "work", ranges.FORWARD)

    assert traced(tmp_path) == {}  # a trace of the job's own holds nothing of the probe's
    ranges.record(True)
    try:
        assert traced(tmp_path) == {("diagnose.forward", "user_annotation"): 1}
    finally:
        ranges.record(False)


def test_a_wrapped_method_keeps_its_name_doc_and_errors() -> None:
    def fails(number: int) -> int:
        """Never returns."""
        raise KeyError(number)

    wrapped = wrapping(fails, within(ranges.SAVE), "no range")

    assert (wrapped.__name__, wrapped.__doc__) == ("fails", "Never returns.")
    for _ in range(2):
        with pytest.raises(KeyError):
            wrapped(1)


def test_a_method_that_is_not_there_is_not_wrapped() -> None:
    wrap_method(Derived, "absent", ranges.SAVE)

    assert not hasattr(Derived, "absent")


def test_a_listener_that_fails_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError

    monkeypatch.setattr(ranges, "emitter", fails)
    monkeypatch.setattr(ranges, "_listening", lambda: True)
    with Range("diagnose.save"):
        pass


@pytest.fixture(scope="module")
def nvtx_events(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """What an NVTX tool hears of a captured training run, and the run's bundle."""
    needs("nvtx", "transformers")
    if COMPILER is None:
        pytest.skip("no C compiler to build the NVTX tool with")
    folder = tmp_path_factory.mktemp("nvtx")
    tool = folder / "counter.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-w", "-o", str(tool), str(SOURCE)], check=True)
    heard = folder / "events.txt"
    listen = {"NVTX_INJECTION64_PATH": str(tool), "NVTX_COUNTER_FILE": str(heard)}
    done = run(TRAINER + "trainer(save_steps=5).train()\n", folder, {"at_step": 4}, **listen)
    assert done.returncode == 0, done.stderr
    return heard.read_text().splitlines(), folder / "out"


def test_nvtx_hears_every_range_of_the_whole_run(nvtx_events: tuple[list[str], Path]) -> None:
    count = Counter(line.strip() for line in nvtx_events[0])

    assert count["push diagnose.forward"] == count["push diagnose.backward"] == 48  # 24 steps of two micro-steps
    assert count["push diagnose.data_wait"] == count["push diagnose.optimizer"] == count["push diagnose.clip"] == 24
    assert count["push diagnose.save"] >= 5
    assert sum(number for line, number in count.items() if line.startswith("push ")) == count["pop"]


def test_nvtx_and_kineto_hear_the_same_names(nvtx_events: tuple[list[str], Path]) -> None:
    named = {line.split(maxsplit=1)[1].strip() for line in nvtx_events[0] if line.startswith(("push ", "start "))}
    kineto = {name for name in recorded(nvtx_events[1]) if name.startswith("diagnose.")}

    assert kineto
    assert kineto | {"diagnose.step"} == named
