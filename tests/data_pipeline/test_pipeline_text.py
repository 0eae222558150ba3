"""The page of `diagnose data`."""

import io

import pytest
from data_pipeline.measurements import MS, made, rounds, spent
from rich.console import Console

from diagnose.commands.data.judge import report_of
from diagnose.commands.data.question import LoaderQuestion
from diagnose.commands.data.text import render

STACKS = {
    "samples": 100,
    "work": {"tokenise": 80},
    "functions": [{"file": "train.py", "line": 14, "function": "tokenise", "calls": "findall", "samples": 80}],
}
WHOLE = made(
    fetch=spent(50, [100.0] * 5),
    stacks={"fetch": STACKS, "collate": STACKS | {"samples": 0, "functions": []}},
    lock={
        "in_python": {"wall_ns": 100, "loading_ns": 50, "beside_ns": 50},
        "without_lock": {"wall_ns": 100, "loading_ns": 99, "beside_ns": 99},
    },
    workers=[rounds(1, 10, 1000.0), {"workers": 4, "because": "4 workers cannot load it: PicklingError: \x1b[31m"}],
    pin={"samples": 1000.0, "bytes": 1_000_000, "wall_ns": 100 * MS},
    lengths={"samples": [50] * 400, "batches": [[10, 100]] * 40},
)


def page(width: int, **console: bool) -> str:
    out = io.StringIO()
    render(report_of(WHOLE, LoaderQuestion(0.03, "--step-ms")), Console(file=out, width=width, markup=False, **console))
    return out.getvalue()


def test_the_page_names_the_stage_its_work_and_its_line() -> None:
    text = " ".join(page(100).split())

    assert "dataset: tokenise 100 < 0.1 % 0.1 MB/s 100 100 %" in text
    assert "verdict the slowest stage is dataset: tokenise: 100 samples/s; it is CPU-bound" in text
    assert "why 80 % of its stack samples are in tokenise (train.py:14), which calls findall" in text
    assert "lock loading holds Python's lock (GIL): threads would take turns, worker processes do not" in text
    assert "a step of 30 ms (--step-ms) needs 4 to 5; the cores of the rank feed 7 during training" in text
    assert "with 4 workers: unknown, because 4 workers cannot load it: PicklingError: \\x1b[31m" in text
    assert "storage, cold; storage, warm: not tried -> measure it with data in files of a local disk" in text
    assert (
        "static: the collate function pads all batches to one length, which no sample needs; "
        "50.0 % (standard error < 0.1 %) of the" in text
    )
    assert "pack samples: 2.00x fewer tokens" in text


@pytest.mark.parametrize(("step_ms", "consequence"), [(200, "it takes turns with training"), (30, "the work has to")])
def test_a_rank_of_one_core_is_told_what_workers_do_to_training(step_ms: float, consequence: str) -> None:
    out = io.StringIO()
    report = report_of(made(cores={"usable": 1, "local_ranks": 1}), LoaderQuestion(step_ms / 1e3, "--step-ms"))
    render(report, Console(file=out, width=120))

    assert f"doubt the cores of the rank feed 0 during training: {consequence}" in " ".join(out.getvalue().split())


def test_the_rate_of_handing_over_is_that_of_all_workers_and_stands_once() -> None:
    out = io.StringIO()
    said = report_of(made(loader={"num_workers": 2}, hand_over=rounds(2, 4, 1000.0)), LoaderQuestion())
    render(said, Console(file=out, width=120))

    assert "verdict   the slowest stage is hand-over: 40.0 samples/s\n" in out.getvalue()


@pytest.mark.parametrize("width", [40, 56, 72, 200])
def test_every_line_fits(width: int) -> None:
    assert max(len(line) for line in page(width).splitlines()) <= min(width, 120)
