"""What each option of `diagnose run` does to a real job of forty steps."""

import json
import re

from options.jobs import Effects, Job, Seen

QUICK = "--steps 1 --warmup 1 --no-report"
TORCHRUN = "torchrun --standalone --nproc_per_node=2 ranks.py"
NO_PRINT = "--steps 3 --at-step 9 --report r.txt"
SLOW_LOADER = "analyze {cpu-slow-loader.json.gz} --json"
WORKERS = re.compile("This DataLoader will create|self.check_worker_number")  # torch, of more workers than cores
LEDGER = {"DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": "{here}/data"}
SLOW = "loop.py --signal-at 20 --slow-at 25"  # the signal is seen in time for a window, since steps take long then
WAITING = "loop.py --sample-ms 20"  # else the loop ends while the first window is written
JOBS = {
    "plain": Job(""),
    "plain-slow": Job("", SLOW),
    "plain-waiting": Job("", WAITING),
    "plain-ranks": Job("", TORCHRUN),
    "plain-trainer": Job("", "trainer.py"),
    "default": Job("run", report=True),
    "window": Job(
        "run --out w --steps 2 --warmup 1 --skip 3 --report r.txt --html r.html --markdown r.md --json d.json"
    ),
    "early": Job("run --at-step 5 --sample-steps 2 --memory --no-report"),
    "deep": Job("run --deep --skip 1 --sample-steps 2 --no-report", WAITING),
    "bounded": Job("run --step-on backward --no-sampling --budget 100K -q", report=True),
    "stopped": Job("run --stop --no-sampling --no-report", alike=False),
    "of-two-ranks": Job(f"run {QUICK}", TORCHRUN),
    "one-of-two-ranks": Job(f"run --ranks 0 --no-flight-recorder {QUICK}", TORCHRUN),
    "logged": Job(f"run --skip 1 --log {QUICK}", "trainer.py", prints=re.compile("diagnose/")),
    "every": Job(f"run --arm --every 8 {QUICK}"),
    "signal": Job(f"run --arm --every 8 --windows 1 --on-signal SIGURG {QUICK}", SLOW),
    "told": Job(f"run --arm --at-step 9 --on-finding cat>>found.jsonl {QUICK}"),
    "slow": Job(f"run --arm --when-slow 50 --hang-stacks 1 {QUICK}", SLOW),
    "applied": Job(f"run --apply before.json {NO_PRINT}", before=SLOW_LOADER, prints=WORKERS, variables=LEDGER),
    "applied-unkept": Job(
        f"run --apply before.json --no-ledger {NO_PRINT}", before=SLOW_LOADER, prints=WORKERS, variables=LEDGER
    ),
    "print-nsys": Job("run --nsys --print", alike=False),
    "nsys": Job("run --nsys", alike=False),
    "no-command": Job("run", "", alike=False),
}
EFFECTS = Effects()


@EFFECTS.of("run", "--out", "window", "default")
def the_traces_are_in_the_folder(seen: Seen) -> None:
    assert (seen.here / "w" / "rank0.json.gz").is_file()


@EFFECTS.of("run", "--steps", "window", "default")
def so_many_steps_are_recorded(seen: Seen) -> None:
    assert len(seen.record["steps"]["active_ns"]) == 2


@EFFECTS.of("run", "--warmup", "window", "default")
def so_many_steps_warm_up(seen: Seen) -> None:
    assert len(seen.record["steps"]["warmup_ns"]) == 1


@EFFECTS.of("run", "--skip", "window", "default")
def no_more_steps_are_waited_for(seen: Seen) -> None:
    assert len(seen.record["steps"]["waiting_ns"]) == 3


@EFFECTS.of("run", "--report", "window", "default")
def the_report_is_in_the_file_and_not_on_stderr(seen: Seen) -> None:
    assert seen.text("r.txt").startswith("verdict ")
    assert "verdict   " not in seen.stderr


@EFFECTS.of("run", "--html", "window", "default")
def the_page_is_in_the_file(seen: Seen) -> None:
    assert seen.text("r.html").startswith("<!doctype html>")


@EFFECTS.of("run", "--markdown", "window", "default")
def the_markdown_is_in_the_file(seen: Seen) -> None:
    assert "per host step" in seen.text("r.md")


@EFFECTS.of("run", "--json", "window", "default")
def the_diagnosis_is_in_the_file(seen: Seen) -> None:
    assert "verdict" in seen.json("d.json")


@EFFECTS.of("run", "--no-report", "early", "default")
def no_report_is_printed(seen: Seen) -> None:
    assert "verdict   " not in seen.stderr
    assert "diagnose: captured into" in seen.stderr


@EFFECTS.of("run", "-q", "bounded", "default")
@EFFECTS.of("run", "--quiet", "bounded", "default")
def only_the_first_lines_are_printed(seen: Seen) -> None:
    assert "verdict   " in seen.stderr
    assert "scope     " not in seen.stderr


@EFFECTS.of("run", "--at-step", "early", "default")
def the_window_begins_at_the_step(seen: Seen) -> None:
    assert seen.record["steps"]["first_active_step"] == 5


@EFFECTS.of("run", "--step-on", "bounded", "early")
def each_backward_pass_ends_a_step(seen: Seen) -> None:
    assert seen.record["steps"]["source"] == "backward"


@EFFECTS.of("run", "--sample-steps", "early", "window")
def no_more_steps_are_sampled(seen: Seen) -> None:
    assert seen.record["stack_samples"].get("steps", 0) <= 2


@EFFECTS.of("run", "--no-sampling", "bounded", "default")
def no_stacks_are_sampled(seen: Seen) -> None:
    assert seen.record["stack_samples"] == {"why_none": "sampling is off"}


@EFFECTS.of("run", "--budget", "bounded", "default")
def the_window_is_cut_to_the_budget(seen: Seen) -> None:
    assert seen.record["recording"]["steps"] < 4
    assert "budget is 100 kB" in seen.record["recording"]["cut_because"]


@EFFECTS.of("run", "--stop", "stopped", "default")
def the_job_ends_after_the_window(seen: Seen) -> None:
    assert "step 10 " in seen.stdout
    assert "step 40 " not in seen.stdout


@EFFECTS.of("run", "--deep", "deep", "default")
def a_second_window_has_stacks(seen: Seen) -> None:
    records = [json.loads(path.read_text()) for path in seen.bundle.glob("step-*/capture-rank0.json")]
    assert [record["profiler"]["with_stack"] for record in records] == [True]


@EFFECTS.of("run", "--memory", "early", "default")
def allocations_are_recorded_or_it_is_said_that_there_are_none(seen: Seen) -> None:
    assert [*seen.bundle.glob("*.pickle")] or len(re.findall("^diagnose: --memory ", seen.stderr, re.M)) == 1


@EFFECTS.of("run", "--ranks", "one-of-two-ranks", "of-two-ranks")
def the_other_rank_keeps_its_step_times_alone(seen: Seen) -> None:
    assert [path.name for path in sorted(seen.bundle.glob("*.json.gz"))] == ["rank0.json.gz"]
    assert (seen.bundle / "capture-rank1.json").is_file()


@EFFECTS.of("run", "--no-flight-recorder", "one-of-two-ranks", "of-two-ranks")
def the_flight_recorder_is_as_the_job_has_it(seen: Seen) -> None:
    assert seen.json("recorder.json") == {}


@EFFECTS.of("run", "--log", "logged", "plain-trainer")
def the_loggers_of_the_trainer_get_the_figures(seen: Seen) -> None:
    assert "diagnose/step_ms" in seen.stdout


@EFFECTS.of("run", "--on-finding", "told", "every")
def the_command_gets_the_verdict_of_the_window(seen: Seen) -> None:
    found = [json.loads(line) for line in seen.text("found.jsonl").splitlines()]
    assert [(one["kind"], one["window"]) for one in found if one["kind"] == "verdict"] == [("verdict", "step-9")]


@EFFECTS.of("run", "--arm", "every", "default")
def every_step_of_the_job_is_timed(seen: Seen) -> None:
    assert (seen.bundle / "rank0.steps").is_file()


@EFFECTS.of("run", "--every", "every", "slow")
def a_window_opens_at_equal_distances(seen: Seen) -> None:
    assert [window["first"] for window in seen.windows][:2] == [8, 16]


@EFFECTS.of("run", "--windows", "signal", "every")
def no_more_windows_open(seen: Seen) -> None:
    assert [window["first"] for window in seen.windows if window["why"] == "every 8 steps"] == [8]


@EFFECTS.of("run", "--on-signal", "signal", "slow")
def the_signal_opens_a_window(seen: Seen) -> None:
    assert "asked for by a signal" in [window["why"] for window in seen.windows]


@EFFECTS.of("run", "--when-slow", "slow", "signal")
def slow_steps_open_a_window(seen: Seen) -> None:
    assert any("since step 25 steps take" in window["why"] for window in seen.windows)


@EFFECTS.of("run", "--hang-stacks", "slow", "signal")
def stacks_are_taken_of_a_job_that_stands_still_or_it_is_said_what_is_missing(seen: Seen) -> None:
    assert "diagnose: no stacks if the job hangs: py-spy is not installed" in seen.stderr


@EFFECTS.of("run", "--apply", "applied", "default")
def the_planned_change_is_made_and_held_against_its_promise(seen: Seen) -> None:
    assert seen.record["dataloader"]["num_workers"] == 4
    assert "applied num_workers=4" in " ".join(seen.text("r.txt").split())


@EFFECTS.of("run", "--no-ledger", "applied-unkept", "applied")
def no_promise_is_kept(seen: Seen) -> None:
    assert seen.text("r.txt")
    assert seen.text("data/promises.jsonl") == ""


@EFFECTS.of("run", "--nsys", "nsys", "default")
def without_nsys_the_job_does_not_start(seen: Seen) -> None:
    assert (seen.code, seen.stdout) == (127, "")
    assert "nsys is not on the PATH: install Nsight Systems" in seen.stderr


@EFFECTS.of("run", "--print", "print-nsys", "nsys")
def the_line_of_nsys_is_printed_and_nothing_runs(seen: Seen) -> None:
    assert (seen.code, seen.stderr) == (0, "")
    assert " nsys profile " in seen.stdout
    assert seen.stdout.endswith(" loop.py\n")


@EFFECTS.of("run", "COMMAND", "default", "no-command")
def the_command_runs(seen: Seen) -> None:
    assert "step 40 " in seen.stdout
