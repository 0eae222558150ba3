"""transformers' Trainer: ranges, steps and facts of a real, tiny run on CPU."""

import statistics
from importlib.metadata import version
from pathlib import Path

import pytest
from capture.bundles import facts, marker, ranges
from capture.scripts import HOOKS, TRAINER, run, said
from needs import needs

needs("transformers", "accelerate")

MICRO = {"diagnose.forward", "diagnose.backward"}
STEP = {"diagnose.clip", "diagnose.optimizer", "diagnose.log"}
FETCHES = 1 if tuple(map(int, version("transformers").split(".")[:2])) >= (4, 46) else 2  # in a step: of all, of each


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trainer")
    done = run(TRAINER + "trainer().train()\nfinish()\n", folder, {"at_step": 12}, fresh=True)
    assert done.returncode == 0, done.stderr
    assert said(done) == []
    return folder / "out"


def fetches(found: dict[str, list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Of all batches of a step where the Trainer has a method for it, else of each, by the range that torch has."""
    return sorted(
        found["diagnose.data_wait" if FETCHES == 1 else "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"]
    )


def test_each_step_holds_its_ranges_once_and_its_micro_steps_twice(captured: Path) -> None:
    found = ranges(captured)

    assert sum(name.startswith("ProfilerStep#") for name in found) == 3
    assert {name: len(found[name]) for name in MICRO} == dict.fromkeys(MICRO, 6)
    assert {name: len(found[name]) for name in STEP} == dict.fromkeys(STEP, 3)
    assert len(fetches(found)) == 3 * FETCHES
    assert len(found["diagnose.to_device"]) >= 6


def test_the_fetch_of_a_step_lies_in_that_step_before_its_forward(captured: Path) -> None:
    found = ranges(captured)
    steps = sorted(span for name, spans in found.items() if name.startswith("ProfilerStep#") for span in spans)

    for began, ended in steps:
        waits, forwards = (
            [span for span in spans if began <= span[0] < ended]
            for spans in (fetches(found), sorted(found["diagnose.forward"]))
        )
        assert len(waits) == FETCHES
        assert all(wait[1] <= forward[0] for wait, forward in zip(waits, forwards, strict=FETCHES == 2))


def test_a_resumed_training_counts_on(tmp_path: Path) -> None:
    """--at-step, the marks and the record speak of the Trainer's own steps."""
    first = run(TRAINER + "trainer(max_steps=26, save_steps=26).train()\n", tmp_path)
    assert first.returncode == 0, first.stderr
    resumed = f"trainer(max_steps=50).train(resume_from_checkpoint={str(tmp_path / 'checkpoint-26')!r})\n"
    own = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # Trainers before torch 2.6 read their random states by pickle
    done = run(TRAINER + resumed, tmp_path, {"at_step": 40, "steps": 2}, **own)

    assert done.returncode == 0, done.stderr
    assert {name for name in ranges(tmp_path / "out") if name.startswith("Prof")} == {
        "ProfilerStep#40",
        "ProfilerStep#41",
    }
    assert facts(tmp_path / "out")["steps"]["first_active_step"] == 40
    assert len(facts(tmp_path / "out")["steps"]["waiting_ns"]) == 40 - 26 - 1 - 3 - 2


def test_a_checkpoint_in_the_window_is_named(captured: Path) -> None:
    assert len(ranges(captured)["diagnose.save"]) == 1


def test_the_facts_say_what_trained(captured: Path) -> None:
    known = facts(captured)

    assert known["model"]["class"] == "LlamaForCausalLM"
    assert known["model"]["config"]["hidden_size"] == 16
    assert known["model"]["attn_implementation"] == "sdpa"
    assert known["training_arguments"]["gradient_accumulation_steps"] == 2
    assert known["batch"]["shapes"]["input_ids"] == [2, 8]
    assert known["batch"]["tokens"] == 16
    assert known["batch"]["padding_share"] == 0.25
    assert known["optimizer"]["class"] == "AdamW"
    assert known["steps"]["source"] == "trainer"
    assert known["steps"]["first_active_step"] == 12
    assert known["overhead_factor"] > 0


def test_steps_without_the_profiler_are_divided_by_what_the_trainer_does(captured: Path) -> None:
    steps = facts(captured)["steps"]
    host, in_range = steps["unprofiled_host_ns"], steps["unprofiled_ranges_ns"]

    assert len(host) == len(steps["control_before_ns"] + steps["control_after_ns"]) > 0
    assert {f"diagnose.{name}" for name in ("data_wait", "forward", "backward")} <= in_range.keys()
    in_ranges = [sum(one) / whole for one, whole in zip(zip(*in_range.values(), strict=True), host, strict=True)]
    assert 0.5 < statistics.median(in_ranges) < 1.01  # a busy machine may stop any one of them between ranges


def test_stop_ends_the_training_after_the_window(tmp_path: Path) -> None:
    script = TRAINER + "made = trainer(max_steps=2000)\nmade.train()\nprint(made.state.global_step)\n"
    done = run(script, tmp_path, {"stop": True, "skip": 2, "control": 0, "sample_steps": 2})

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 20
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"


def test_a_short_run_and_a_second_one_each_leave_a_trace(tmp_path: Path) -> None:
    done = run(TRAINER + "trainer(max_steps=4).train()\ntrainer(max_steps=4).train()\n", tmp_path, {})

    assert done.returncode == 0, done.stderr
    for out in ("out", "out-2"):
        assert sum(name.startswith("ProfilerStep#") for name in ranges(tmp_path / out)) == 2


def test_evaluation_is_named(tmp_path: Path) -> None:
    script = TRAINER.replace("train_dataset=data)", "train_dataset=data, eval_dataset=data[:2])")
    script += "trainer(eval_strategy='steps', eval_steps=6, save_strategy='no').train()\n"
    done = run(script, tmp_path, {"at_step": 5})

    assert done.returncode == 0, done.stderr
    assert len(ranges(tmp_path / "out")["diagnose.eval"]) == 1


def test_the_callback_captures_without_the_command(tmp_path: Path) -> None:
    script = TRAINER.replace(HOOKS, HOOKS.replace("torch_hooks.install()", "")) + (
        "from diagnose.probes import DiagnoseCallback\n"
        "callback = DiagnoseCallback(sys.argv[1] + '/out', steps=2, skip=2)\n"
        "made = trainer()\nmade.add_callback(callback)\n"
    )
    script = script.replace("made = trainer()\nmade.add_callback(callback)\n", "made = trainer(callbacks=callback)\n")
    script = script.replace("def trainer(kind=Own,", "def trainer(kind=Own, callbacks=None,").replace(
        "train_dataset=data)", "train_dataset=data, callbacks=[callbacks] if callbacks else None)"
    )
    done = run(script + "made.train()\n", tmp_path)

    assert done.returncode == 0, done.stderr
    found = ranges(tmp_path / "out")
    assert sum(name.startswith("ProfilerStep#") for name in found) == 2
    assert len(found["diagnose.forward"]) == 4
