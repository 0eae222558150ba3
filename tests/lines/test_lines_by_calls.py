"""Recorded calls (with_stack) as time at the user's lines: libraries fold into the line that calls them."""

import pytest
from analysed import US, timeline
from kineto import Trace
from lines.lines_jobs import LOADER, call, called

from diagnose.facts import Unknown
from diagnose.metrics.lines.recorded import recorded
from diagnose.metrics.lines.user_code import ThreadWork
from diagnose.trace.python_frames import DOINGS, doing_of, user_frame
from diagnose.trace.stacks import Frame

MAIN, COLLATE = "train.py(10): main", "data.py(31): collate"
ITEM = "<built-in method item of Tensor object at 0x7f03>"


def steps(*work: object, count: int = 4) -> Trace:
    """Steps of a CPU job inside `main`, the work of each done by the given functions of the trace."""
    job = Trace(gpu=None)
    with call(job, MAIN):
        for _ in range(count):
            with job.step():
                job.cpu_op("aten::mm", 100)
                for each in work:
                    each(job)  # type: ignore[operator]
    return job


def loads(job: Trace) -> None:
    with call(job, LOADER, 50), call(job, COLLATE, 200), call(job, "json/__init__.py(183): dumps", 100):
        called(job, "<built-in function len>", 50)


def reads(job: Trace) -> None:
    called(job, ITEM, 300)


def code(job: Trace) -> ThreadWork:
    found = recorded(timeline(job))
    assert isinstance(found, ThreadWork)
    return found


def spent_us(found: ThreadWork) -> dict[tuple[str, str, str], float]:
    """Microseconds per counted step at the innermost lines, by function, doing and call."""
    return {(s.frames[-1].function, s.doing, s.calls): s.weight / 3 / US for s in found.stacks}


def test_libraries_and_functions_in_c_fold_into_the_line_that_calls_them() -> None:
    found = code(steps(loads, reads))

    assert spent_us(found) == {
        ("main", "step", ""): 100,
        ("main", "loading", "__next__"): 50,
        ("main", "step", "item"): 300,
        ("collate", "loading", ""): 200,
        ("collate", "loading", "dumps"): 150,
    }
    assert found.whole == 3 * 800 * US
    assert {f.function[1]: f.weight / 3 / US for f in found.altogether} == {"main": 800, "collate": 350}


@pytest.mark.parametrize(
    ("caller", "name", "doing"),
    [
        ("torch/nn/modules/module.py(1794): inner", "watch", "step"),
        ("torch/nn/modules/module.py(1794): inner", "patched_forward", "forward"),
        ("torch/utils/hooks.py(202): hook", "watch", "step"),
        ("torch/nn/modules/container.py(248): forward", "watch", "forward"),
    ],
)
def test_a_hook_of_the_users_is_the_steps_and_not_the_models(caller: str, name: str, doing: str) -> None:
    def passes(job: Trace) -> None:
        with call(job, "nn.Module: Linear_0", 20), call(job, caller, 30), call(job, f"train.py(5): {name}", 100):
            called(job, ITEM, 300)

    found = spent_us(code(steps(passes)))

    assert (found[name, doing, ""], found[name, doing, "item"]) == (100, 300)
    assert sum(us for (function, done, _), us in found.items() if (function, done) == ("main", "forward")) == 50


def test_a_function_that_calls_itself_has_its_time_once() -> None:
    def walks(job: Trace) -> None:
        with call(job, "tree.py(3): walk", 100), call(job, "tree.py(3): walk", 100):
            called(job, "tree.py(3): walk", 100)

    total = {f.function[1]: f.weight / 3 / US for f in code(steps(walks)).altogether}

    assert total == {"main": 400, "walk": 300}


def test_a_thread_of_the_users_that_marks_no_step_is_not_the_training_thread() -> None:
    job = steps(loads)
    begin, end = job._begin, job.now
    with job.thread(99):
        job.now = begin
        called(job, "prefetch.py(8): run", (end - begin) / US)

    assert {s.frames[-1].file for s in code(job).stacks} == {"train.py", "data.py"}


def test_garbage_is_collected_in_the_function_that_runs_meanwhile() -> None:
    def collects(job: Trace) -> None:
        with call(job, "metrics.py(5): score", 100):
            job.gc(400)

    assert spent_us(code(steps(collects)))["score", "collecting", ""] == 400


def test_what_a_closure_runs_inside_the_optimizer_is_the_steps() -> None:
    def optimizes(job: Trace) -> None:
        with call(job, "torch/optim/optimizer.py(480): wrapper", 10), call(job, "torch/optim/adam.py(9): step", 40):
            called(job, "lit.py(20): training_step", 200)

    spent = spent_us(code(steps(optimizes)))

    assert spent["training_step", "step", ""] == 200
    assert spent["main", "optimizer", "wrapper"] == 50


@pytest.mark.parametrize("deep", [3, 3000])
def test_deep_nests_fold(deep: int) -> None:
    job = Trace(gpu=None)
    with job.step():
        frames = [call(job, MAIN), *(call(job, f"torch/_ops.py({n}): f") for n in range(deep))]
        for frame in frames:
            frame.__enter__()
        job.cpu_op("aten::mm", 100)
        for frame in reversed(frames):
            frame.__exit__(None, None, None)

    assert [(s.frames[-1].function, s.weight) for s in code(job).stacks] == [("main", 100 * US)]


def test_a_trace_without_the_users_frames_says_nothing_and_left_out_calls_are_unknown() -> None:
    job = Trace(gpu=None)
    with job.step():
        called(job, "torch/_ops.py(5): __call__", 100)
        job.gc(10)
    line = timeline(job)

    assert recorded(line) is None
    line.trace.left_out["python_function"] = 2  # type: ignore[index]
    assert isinstance(recorded(line), Unknown)


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("train.py(10): main", Frame("train.py", 10, "main")),
        ("my_project/data.py(31): <listcomp>", Frame("my_project/data.py", 31, "<listcomp>")),
        ("/home/me/lib/data.py(31): collate", Frame("/home/me/lib/data.py", 31, "collate")),
        ("C:\\work\\data.py(31): collate", Frame("C:\\work\\data.py", 31, "collate")),
        ("<stdin>(1): f", Frame("<stdin>", 1, "f")),
        ("a(b).py(3): f(x)", Frame("a(b).py", 3, "f(x)")),
        ("torchvision/models/resnet.py(284): forward", None),
        ("json/encoder.py(183): encode", None),
        ("/usr/lib/python3.12/json/encoder.py(183): encode", None),
        ("/opt/env/lib/python3.12/site-packages/mine/x.py(1): f", None),
        ("C:\\env\\Lib\\site-packages\\mine\\x.py(1): f", None),
        ("<frozen importlib._bootstrap>(1): f", None),
        ("<string>(2): __init__", None),
        ("nn.Module: Linear_0", None),
        ("<built-in function len>", None),
        ("Python GC", None),
        ("", None),
    ],
)
def test_only_the_users_own_files_are_his_lines(name: str, frame: Frame | None) -> None:
    assert user_frame(name) == frame


@pytest.mark.parametrize(
    ("name", "doing"),
    [
        ("torch/utils/data/_utils/fetch.py(50): fetch", "loading"),
        ("/env/lib/python3.12/site-packages/accelerate/data_loader.py(550): __iter__", "loading"),
        ("torch/_tensor.py(570): backward", "backward"),
        ("torch/autograd/graph.py(820): _engine_run_backward", "backward"),
        ("torch/_tensor.py(9): __format__", ""),
        ("nn.Module: Model_0", "forward"),
        ("torch/nn/modules/module.py(1743): _call_impl", "forward"),
        ("torch/nn/modules/module.py(1915): __getattr__", "loop"),
        ("torch/serialization.py(943): save", ""),
        ("torch/optim/adamw.py(50): step", "optimizer"),
        ("torch/optim/lr_scheduler.py(200): step", ""),
        ("data.py(31): collate", ""),
    ],
)
def test_a_librarys_call_says_what_is_done_inside_it(name: str, doing: str) -> None:
    assert doing_of(name) == doing
    assert doing in {*DOINGS, ""}
