"""What each option of `diagnose tune` does to the runs of a real job that waits for its samples."""

from options.jobs import Effects, Job, Seen
from options.of_run import LEDGER

SCRIPT = "loop.py --well --sample-ms 8"
HALF, NO_FP16 = "trainer.py --half", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}  # bf16 is advised, which alters numbers
JOBS = {
    "tuned": Job(
        "tune --out t --runs 2 --steps 3 --at-step 9 --control 4 --noise 100000%",
        SCRIPT, alike=False, variables=LEDGER,
    ),
    "tune-default": Job("tune --skip 2 --runs 4", SCRIPT, alike=False, variables=LEDGER),
    "tune-go-on": Job(
        "tune --resume t --runs 4 --no-repeat --no-ledger", "", alike=False, after="tuned", variables=LEDGER
    ),
    "tune-once": Job("tune --runs 1", SCRIPT, alike=False),
    "tune-too-long": Job("tune --run-limit 1s", SCRIPT, alike=False),
    "tune-no-time": Job("tune --budget 2s", SCRIPT, alike=False),
    "tune-trainer": Job("tune --out t --runs 1 --at-step 8", HALF, alike=False, variables=NO_FP16),
    "tune-any-numbers": Job(
        "tune --resume t --runs 1 --allow-numerics", "", alike=False, after="tune-trainer", variables=NO_FP16
    ),
    "tune-nothing": Job("tune", "", alike=False),
}  # fmt: skip
EFFECTS = Effects()


def first_window(seen: Seen) -> dict[str, list[int]]:
    """The steps of the first run, as it recorded them."""
    return dict(next(iter(seen.records("run-0"))).get("steps", {}))


@EFFECTS.of("tune", "--out", "tuned", "tune-default")
def the_ladder_is_in_the_folder(seen: Seen) -> None:
    assert seen.text("t/ladder.csv").startswith("source,row,")


@EFFECTS.of("tune", "--runs", "tune-once", "tune-default")
def the_job_runs_no_more_often(seen: Seen) -> None:
    assert len(seen.tuning["rungs"]) == 1
    assert seen.tuning["why_ended"] == "--runs 1 is reached"


@EFFECTS.of("tune", "--steps", "tuned", "tune-default")
def so_many_steps_are_recorded(seen: Seen) -> None:
    assert len(first_window(seen)["active_ns"]) == 3


@EFFECTS.of("tune", "--at-step", "tuned", "tune-default")
def the_window_begins_at_the_step(seen: Seen) -> None:
    assert first_window(seen)["first_active_step"] == 9


@EFFECTS.of("tune", "--control", "tuned", "tune-default")
def so_many_steps_are_timed_beside(seen: Seen) -> None:
    assert [len(first_window(seen)[f"control_{when}_ns"]) for when in ("before", "after")] == [4, 4]


@EFFECTS.of("tune", "--skip", "tune-default", "tuned")
def no_more_steps_are_waited_for(seen: Seen) -> None:
    assert len(first_window(seen)["waiting_ns"]) == 2
    assert first_window(seen)["first_active_step"] == 17  # after 12 timed steps, 2 that warm up, and those


@EFFECTS.of("tune", "--budget", "tune-no-time", "tune-default")
def no_run_ends_later(seen: Seen) -> None:
    assert (seen.code, seen.tuning) == (3, {})
    assert "why: it did not end within 2 s" in seen.stderr


@EFFECTS.of("tune", "--run-limit", "tune-too-long", "tune-default")
def a_run_that_takes_longer_is_ended(seen: Seen) -> None:
    assert (seen.code, seen.tuning) == (3, {})
    assert "why: it did not end within 1 s" in seen.stderr


@EFFECTS.of("tune", "--resume", "tune-go-on", "tuned")
def the_tune_goes_on_after_its_last_run(seen: Seen) -> None:
    assert "diagnose: run 0 begins" not in seen.stderr
    assert seen.tuning["rungs"][1:]


@EFFECTS.of("tune", "--no-repeat", "tune-go-on", "tune-default")
def no_run_is_repeated(seen: Seen) -> None:
    assert seen.tuning["rungs"][1:]
    assert [rung for rung in seen.tuning["rungs"] if rung["change"].endswith(" again")] == []


@EFFECTS.of("tune", "--no-ledger", "tune-go-on", "tune-default", slow=True)
def no_promise_is_kept(seen: Seen) -> None:
    assert seen.tuning["rungs"][1]["predicted"]
    assert seen.text("data/promises.jsonl") == ""


@EFFECTS.of("tune", "--noise", "tuned", "tune-default", slow=True)
def a_gain_within_the_noise_is_none(seen: Seen) -> None:
    assert len(seen.tuning["rungs"]) == 1
    assert "even its best case is within the noise of equal runs" in seen.tuning["left"][0]["because"]


@EFFECTS.of("tune", "--allow-numerics", "tune-any-numbers", "tune-trainer", slow=True)
def what_alters_training_is_no_longer_left_out(seen: Seen) -> None:
    assert seen.code == 0
    assert "allow it with --allow-numerics" not in " ".join(seen.stdout.split())


@EFFECTS.of("tune", "COMMAND", "tune-default", "tune-nothing")
def the_command_runs(seen: Seen) -> None:
    assert seen.code == 0
    assert [path.name for path in seen.here.rglob("run-0.log")] == ["run-0.log"]
