"""The ladder as rows of a terminal, as CSV and as a page."""

import csv
import io
import re
from pathlib import Path

from msgspec.structs import replace

from diagnose.cli.terminal import terminal
from diagnose.commands.tune.answer import LeftToUser, Measured, Rung, Tuning
from diagnose.commands.tune.html import tuning_page
from diagnose.commands.tune.text import TrialsPage, render_end
from diagnose.commands.tune.views import differing, result, trials_csv, tuning_view
from diagnose.diagnosis import CodeLine
from diagnose.diagnosis.promise import Judgement
from diagnose.report.views.summary import About

FP32 = Measured(
    gpus=1, micro_batch=6, seq_len=1024, model_precision="fp32", tokens_per_s_per_gpu=10485.0, step_ms=586.0
)
BF16 = Measured(
    gpus=1, micro_batch=6, seq_len=1024, model_precision="bf16", tokens_per_s_per_gpu=13520.0, step_ms=454.0
)
LINE = CodeLine(file="train.py", line=15, function="augment", share=0.381, of="202 samples of the training thread")
TUNING = Tuning(
    command=("train.py", "--lr", "1e-4"),
    rungs=(
        Rung(number=0, change="the job as it is", outcome="ok", decision="first", measured=FP32, total=(1.0, 1.0, 1.0)),
        Rung(
            number=1, rule="half", change="bf16=True", outcome="ok", decision="kept", measured=BF16, seconds=61.24,
            predicted=(1.2, 1.5), achieved=(1.27, 1.29, 1.31), total=(1.27, 1.29, 1.31),
            judgement=Judgement(standing="as"),
        ),
        Rung(
            number=2, rule="low-memory-use", change="<b>per_device_train_batch_size=12</b>", outcome="oom",
            decision="rolled back", because="out of memory", predicted=(1.1, None),
        ),
    ),
    patch=("TrainingArguments(..., bf16=True)",),
    left=(
        LeftToUser(
            rule="python", change="move work out", because="it is yours", do="Do it.", predicted=(1.0, 1.4),
            where=(LINE,),
        ),
    ),
    why_ended="nothing is left to try",
)  # fmt: skip


def printed(width: int) -> str:
    into = io.StringIO()
    console = terminal(file=into, width=width)
    page = TrialsPage(console)
    for rung in TUNING.rungs:
        page.add(rung)
    render_end(TUNING, "diagnose-runs/tune-train", console)
    return into.getvalue()


def test_a_terminal_gets_a_row_of_each_run_and_the_patch() -> None:
    page = printed(160)
    words = [line.split() for line in page.splitlines()]

    assert words[0] == [
        "run",
        "change",
        "gpus",
        "batch",
        "seq",
        "weights",
        "tok/s/gpu",
        "step",
        "ms",
        "predicted",
        "measured",
        "outcome",
    ]
    assert words[2] == ["1", "bf16=True", "1", "6", "1024", "bf16", "13520", "454", "1.20-1.50x", "1.29x", "kept"]
    assert words[3][-6:] == ["1.10x", "or", "more", "out", "of", "memory"]
    assert "result    1.29x faster (1.27-1.31x) with 1 change, after 3 runs; measured once" in page
    assert "keep      TrainingArguments(..., bf16=True)" in page
    assert "left      move work out (up to 1.4x): it is yours" in page
    assert "augment (train.py:15) takes 38.1 % of 202 samples of the training thread. Do it." in page


def test_a_narrow_terminal_gets_the_figures_that_tell_most() -> None:
    rows = printed(80).splitlines()[:3]

    assert max(map(len, rows)) <= 80
    assert rows[0].split() == ["run", "change", "step", "ms", "predicted", "measured", "outcome"]


def test_a_hostile_name_drives_no_terminal() -> None:
    into = io.StringIO()
    TrialsPage(terminal(file=into, width=160)).add(replace(TUNING.rungs[0], change="\x1b[2Jas it is"))

    assert "\x1b" not in into.getvalue()


def test_the_page_s_table_begins_with_what_came_of_each_run_and_is_as_wide_as_it_needs() -> None:
    table = tuning_page(TUNING, About("test")).split('<table class="job ladder">')[1].split("</table>")[0]

    assert re.findall(r"<th scope=\"col\"[^>]*>([^<]*)<", table)[:5] == [
        "Run",
        "Outcome",
        "Predicted",
        "Achieved",
        "In all",
    ]
    assert '<td data-head="Outcome">kept <span class="fine">as predicted</span></td>' in table


def test_without_a_prediction_the_page_speaks_of_none() -> None:
    alone = replace(TUNING, rungs=(TUNING.rungs[0], replace(TUNING.rungs[1], predicted=None, judgement=None)))
    page = tuning_page(alone, About("test"))

    assert ">Predicted</th>" not in page
    assert "Nothing was predicted of them." in page
    assert "Achieved is the speed" in page


def test_a_ladder_that_is_not_at_its_end_says_so() -> None:
    tuning = replace(TUNING, rungs=TUNING.rungs[:1], why_ended="")

    assert result(tuning) == "no change was tried yet (1 run; not at its end)"


def test_nothing_could_be_tried_is_not_nothing_helped() -> None:
    slower = replace(TUNING.rungs[1], decision="rolled back", achieved=(0.7, 0.8, 0.9), total=(0.7, 0.8, 0.9))

    untried = result(replace(TUNING, rungs=TUNING.rungs[:1], patch=()))
    unhelpful = result(replace(TUNING, rungs=(TUNING.rungs[0], slower), patch=()))

    assert untried == "nothing could be tried: the only changes left need an edit, or your consent (1 run)"
    assert unhelpful == "nothing helped: the change made the job no faster (2 runs)"


def test_rows_of_the_same_settings_differ_in_what_is_printed_first() -> None:
    own = {"trainer": {"per_device_train_batch_size": 12, "gradient_accumulation_steps": 1}}
    larger = {"trainer": {"per_device_train_batch_size": 24}}
    first = replace(TUNING.rungs[1], own=own, settings=own)

    assert differing(first, TUNING.rungs[:1]) == "batch 6 -> 12, accumulation 1"
    counted = replace(TUNING.rungs[0], measured=replace(FP32, accumulation_steps=2))
    assert differing(first, (counted,)) == "batch 6 -> 12, accumulation 2 -> 1"
    assert differing(replace(first, own=larger), (TUNING.rungs[0], first)) == "batch 12 -> 24"


def test_the_table_has_the_columns_of_the_benchmarks_ladder() -> None:
    known = (Path(__file__).parents[2] / "benchmarks" / "ladder.csv").read_text().splitlines()[0].split(",")
    rows = list(csv.DictReader(io.StringIO(trials_csv(TUNING))))

    assert list(rows[0])[: len(known)] == known
    assert (rows[1]["row"], rows[1]["tokens_per_s_per_gpu"], rows[1]["outcome"]) == ("1", "13520", "ok")
    assert (rows[1]["predicted_low"], rows[1]["achieved"], rows[1]["achieved_high"]) == ("1.2", "1.29", "1.31")
    assert (rows[2]["outcome"], rows[2]["tokens_per_s_per_gpu"], rows[2]["predicted_high"]) == ("oom", "", "")


def test_predicted_and_achieved_stand_beside_each_rung() -> None:
    _, kept, failed = tuning_view(TUNING).rows

    assert (kept.predicted, kept.achieved, kept.inside) == ("1.20-1.50x", "1.29x (1.27-1.31x)", "as predicted")
    assert (failed.achieved, failed.inside, failed.because) == ("", "", "out of memory")


def test_the_page_escapes_what_it_shows() -> None:
    page = tuning_page(TUNING, About("1.0", "diagnose tune"))

    assert "&lt;b&gt;per_device_train_batch_size=12&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "TrainingArguments(..., bf16=True)" in page
    assert "train.py --lr 1e-4" in page
