"""Stacks become the user's own lines; what libraries do below a line is folded into it."""

import dis
import json
from collections.abc import Sequence
from types import CodeType

import pytest

from diagnose.probes.stacks.folding import Folding, called_name, stack_samples
from diagnose.probes.stacks.sampling import StackSampler

Place = tuple[CodeType, str, int]
"""Code, the name of its module, and the line that runs."""

TRAIN = "/home/me/train.py"
TORCH = "/venv/lib/python3.11/site-packages/torch"


def function(file: str, name: str, module: str = "own", line: int = 1) -> Place:
    """A function that begins at `line` and runs the line after it."""
    source = "\n" * (line - 1) + f"def {name}():\n    pass\n"
    return _inside(compile(source, file, "exec"), name), module, line + 1


def _inside(code: CodeType, *names: str) -> CodeType:
    for name in names:
        code = next(const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)
    return code


def folded(*places: Place) -> tuple[list[tuple[str, int, str]], str]:
    """The frames of a stack whose outermost place comes first, and what is done."""
    codes = {id(code): (code, module) for code, module, _ in places}
    [key] = Folding(codes).of({_stack(places): 1})
    frames, doing, _ = key
    return list(frames), doing


def _stack(places: Sequence[Place]) -> tuple[int, ...]:
    def at(code: CodeType, line: int) -> int:
        return next(begin for begin, starts in dis.findlinestarts(code) if starts == line)

    return tuple(number for code, _, line in reversed(places) for number in (id(code), at(code, line)))


MAIN = function(TRAIN, "main", line=10)
COLLATE = function("/home/me/data.py", "collate", line=30)


def test_frames_of_libraries_are_folded_into_the_line_that_called_them() -> None:
    fetch = function(f"{TORCH}/utils/data/_utils/fetch.py", "fetch", "torch.utils.data._utils.fetch")
    encode = function(json.encoder.__file__, "iterencode", "json.encoder")
    found = folded(MAIN, fetch, COLLATE, encode)

    assert found == ([(TRAIN, 11, "main"), ("/home/me/data.py", 31, "collate")], "loading")


@pytest.mark.parametrize(
    ("path", "name", "doing"),
    [
        ("utils/data/dataloader.py", "__next__", "loading"),
        ("_tensor.py", "backward", "backward"),
        ("_tensor.py", "__repr__", "step"),
        ("autograd/graph.py", "_engine_run_backward", "backward"),
        ("autograd/function.py", "apply", "loop"),
        ("nn/modules/module.py", "_call_impl", "forward"),
        ("nn/modules/module.py", "named_modules", "loop"),
        ("distributed/distributed_c10d.py", "all_reduce", "loop"),
        ("distributed/checkpoint/state_dict_saver.py", "save", "step"),
        ("serialization.py", "save", "step"),
        ("optim/optimizer.py", "wrapper", "optimizer"),
        ("optim/lr_scheduler.py", "step", "step"),
    ],
)
def test_what_the_job_does_is_told_by_torchs_own_frames(path: str, name: str, doing: str) -> None:
    assert folded(MAIN, function(f"{TORCH}/{path}", name, "torch"))[1] == doing


def test_a_transform_that_is_a_module_loads() -> None:
    fetch = function(f"{TORCH}/utils/data/_utils/fetch.py", "fetch", "torch.utils.data._utils.fetch")
    module = function(f"{TORCH}/nn/modules/module.py", "_call_impl", "torch.nn.modules.module")

    assert folded(MAIN, fetch, module, COLLATE)[1] == "loading"


@pytest.mark.parametrize(
    ("path", "caller", "name", "doing"),
    [
        ("nn/modules/module.py", "_call_impl", "watch", "step"),
        ("nn/modules/module.py", "inner", "forward_hook", "step"),
        ("nn/modules/module.py", "_call_impl", "forward", "forward"),
        ("nn/modules/module.py", "_call_impl", "patched_forward", "forward"),
        ("utils/hooks.py", "hook", "watch", "step"),
        ("autograd/graph.py", "_engine_run_backward", "watch", "step"),
        ("autograd/function.py", "apply", "backward", "backward"),
    ],
)
def test_a_hook_of_the_users_is_the_steps_and_not_the_models(path: str, caller: str, name: str, doing: str) -> None:
    runs = function(f"{TORCH}/autograd/graph.py", "_engine_run_backward", "torch") if doing == "backward" else MAIN
    calls, values = function(f"{TORCH}/{path}", caller, "torch"), function(TRAIN, "values", line=20)

    assert folded(MAIN, runs, calls, function(TRAIN, name, line=5), values)[1] == doing


def test_a_module_that_a_hook_runs_is_a_forward_pass_again() -> None:
    module = function(f"{TORCH}/nn/modules/module.py", "_call_impl", "torch")

    assert folded(MAIN, module, function(TRAIN, "watch", line=5), module)[1] == "forward"


def test_what_a_closure_of_the_users_does_inside_the_optimizer_is_the_steps() -> None:
    """As Lightning's training_step is called."""
    wrapper = function(f"{TORCH}/optim/optimizer.py", "wrapper", "torch.optim.optimizer")

    assert folded(MAIN, wrapper, COLLATE)[1] == "step"


def test_the_backward_pass_of_a_closure_is_no_optimizers() -> None:
    step = function(f"{TORCH}/optim/optimizer.py", "wrapper", "torch.optim.optimizer")
    backward = function(f"{TORCH}/_tensor.py", "backward", "torch._tensor")

    assert folded(MAIN, step, function(TRAIN, "closure"), backward)[1] == "backward"


@pytest.mark.parametrize(
    ("file", "module", "is_the_users"),
    [
        ("<stdin>", "__main__", True),
        ("<string>", "__main__", True),
        ("/tmp/ipykernel_12/345.py", "__main__", True),
        ("<string>", "transformers.modeling_outputs", False),
        ("<frozen runpy>", "runpy", False),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", "yaml.loader", False),
        ("/tmp/torchinductor_me/ab/cab.py", "cab", False),
        (StackSampler._look.__code__.co_filename, "diagnose.probes.stacks.sampling", False),
        (dis.__file__, "dis", False),
        ("/home/me/torch_things/loss.py", "torch_things.loss", True),
    ],
)
def test_whose_a_file_is(file: str, module: str, is_the_users: bool) -> None:
    assert bool(folded(function(file, "work", module))[0]) is is_the_users


def test_a_comprehension_is_a_part_of_the_function_around_it() -> None:
    source = "def score(rows):\n    return sum(\n        row.item()\n        for row in rows\n    )\n"
    module = compile(source, TRAIN, "exec")
    around, inside = _inside(module, "score"), _inside(module, "score", "<genexpr>")

    assert folded((around, "own", 2), (inside, "own", 3))[0] == [(TRAIN, 3, "score")]
    assert folded(MAIN, (inside, "own", 3))[0] == [(TRAIN, 11, "main"), (TRAIN, 3, "<genexpr>")]


def test_paths_are_those_from_the_working_folder(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))

    assert folded(function(f"{tmp_path}/own/data.py", "collate"))[0] == [("own/data.py", 2, "collate")]


CALLS = """
def work(loss, total):
    total += loss.item()
    total += sum(float(each) for each in total.tolist())
    print(json.dumps(total), torch.cuda.synchronize())
    handlers[0](total)
"""


def test_the_name_of_what_a_line_calls() -> None:
    code = _inside(compile(CALLS, TRAIN, "exec"), "work")
    calls = [each for each in dis.get_instructions(code) if each.opname.startswith("CALL")]

    named = [called_name(code, each.offset) for each in calls]
    assert [name for name in named if name is not None] == ["item", "tolist", "sum", "dumps", "synchronize", "print"]
    assert all(called_name(code, each.offset + 2) == called_name(code, each.offset) for each in calls)  # its caches
    assert called_name(code, 0) is None


def test_the_record_holds_so_many_stacks_and_says_how_many_samples_are_left_out() -> None:
    sampler = StackSampler(0)
    places = [function(TRAIN, f"work_{number}") for number in range(205)]
    sampler.codes = {id(code): (code, module) for code, module, _ in places}
    sampler.by_step = {_stack([place]): {3: 1 + (number == 7)} for number, place in enumerate(places)}
    sampler.steps, sampler.samples, sampler.wall_ns, sampler.cost_ns = 3, 206, 2_060_000_000, 9_000_000

    record = stack_samples(sampler, asked=True)

    assert record["stacks"][0] == {
        "frames": [[TRAIN, 2, "work_7"]],
        "doing": "step",
        "calls": None,
        "below": [],
        "samples": 2,
        "by_step": [[3, 2]],
    }
    assert (len(record["stacks"]), record["left_out"], record["in_user_code"]) == (200, 5, 206)
    assert (record["wall_ms"], record["cost_ms"], record["steps"]) == (2060.0, 9.0, 3)


def test_a_deep_stack_keeps_its_innermost_frames() -> None:
    recursion = function(TRAIN, "walk")
    frames, _ = folded(MAIN, *[recursion] * 100)

    assert frames == [(TRAIN, 2, "walk")] * 40


def test_why_there_are_no_samples_is_said() -> None:
    assert stack_samples(StackSampler(0), asked=False) == {"why_none": "sampling is off"}
    assert stack_samples(StackSampler(0), asked=True) == {"why_none": "the loop ended before a step was sampled"}
