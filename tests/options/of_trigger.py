"""What `diagnose trigger` does to an armed job while it trains."""

from options.jobs import Effects, Job, Seen

JOBS = {
    "plain-until": Job("", "until.py enough"),
    "triggered": Job(
        "run --out r --arm --every 1000000 --steps 1 --warmup 1 --no-report", "until.py enough",
        meanwhile=("trigger r --wait 0", "trigger r --wait 300"),
    ),
    "trigger-of-nothing": Job("run --out r --arm --steps 1 --no-report", "until.py enough", meanwhile=("trigger",)),
}  # fmt: skip
EFFECTS = Effects()


@EFFECTS.of("trigger", "RUN", "triggered", "trigger-of-nothing")
def a_window_opens_in_the_run(seen: Seen) -> None:
    assert "asked for by diagnose trigger" in [window["why"] for window in seen.windows]


@EFFECTS.of("trigger", "--wait", "triggered", "trigger-of-nothing")
def the_answer_is_waited_for_so_long(seen: Seen) -> None:
    assert seen.text("meanwhile-0.txt") == "asked; the job has not answered yet\n"
    assert seen.text("meanwhile-1.txt").startswith("a window opens at step ")
