"""What each option of `diagnose data` does to a real job."""

import json

from options.jobs import Effects, Job, Seen

SLOW = "loop.py --sample-ms 8"  # else workers would cost more than they bring
JOBS = {
    "data": Job("data --seconds 1", alike=False),
    "data-few": Job("data --seconds 2 --samples 4 --step-ms 2 --batches-per-step 3 --loader 1", SLOW, alike=False),
    "data-of-run": Job(
        "data --seconds 1 --samples 4 --run before.json --json", SLOW,
        alike=False, before="analyze {cpu-slow-loader.json.gz} --json",
    ),
    "data-of-nothing": Job("data", "", alike=False),
}  # fmt: skip
EFFECTS = Effects()


@EFFECTS.of("data", "--seconds", "data-few", "data")
def the_measurement_takes_so_long(seen: Seen) -> None:
    assert "the input is measured for about 2 s" in seen.stderr


@EFFECTS.of("data", "--samples", "data-few", "data")
def no_more_samples_are_loaded(seen: Seen) -> None:
    assert "measured 4 samples in process" in " ".join(seen.stdout.split())


@EFFECTS.of("data", "--step-ms", "data-few", "data")
def the_workers_for_such_a_step_are_counted(seen: Seen) -> None:
    assert "workers a step of 2 ms" in " ".join(seen.stdout.split())


@EFFECTS.of("data", "--batches-per-step", "data-few", "data")
def the_step_takes_so_many_batches(seen: Seen) -> None:
    assert "of 3 batches" in seen.stdout


@EFFECTS.of("data", "--loader", "data-few", "data")
def the_loader_is_that_one(seen: Seen) -> None:
    assert "DataLoader 1 of the script asks for its first batch" in seen.stderr


@EFFECTS.of("data", "--json", "data-of-run", "data")
def the_answer_is_one_object(seen: Seen) -> None:
    assert seen.stdout.startswith("{")
    assert json.loads(seen.stdout)["dataset_samples"] == 80


@EFFECTS.of("data", "--run", "data-of-run", "data")
def the_time_of_a_step_is_that_of_the_run(seen: Seen) -> None:
    assert "before.json" in seen.stdout


@EFFECTS.of("data", "COMMAND", "data", "data-of-nothing")
def the_command_starts_and_nothing_is_trained(seen: Seen) -> None:
    assert seen.code == 0
    assert "job the script's loop, dataset Samples" in " ".join(seen.stdout.split())
