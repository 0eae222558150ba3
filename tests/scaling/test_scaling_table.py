"""`diagnose scaling` on tables of runs: the figures of the published ladder, other sizes, and what is asked."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from diagnose.cli import main
from diagnose.commands.scaling.answer import ScalingReport

LADDER = str(Path(__file__).parents[2] / "benchmarks" / "ladder.csv")
CHAPTER = ["--where", "source=chapter 15", "--where", "row=15.10"]


def run(*words: str, columns: int = 100) -> Result:
    return CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"}).invoke(main, ["scaling", *words])


def job(*words: str) -> dict[str, object]:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["jobs"][0]  # type: ignore[no-any-return]


def table(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def measured(found: dict[str, object]) -> list[dict[str, list[float]]]:
    return [size for size in found["sizes"] if size["runs"]]  # type: ignore[attr-defined]


def test_the_ladder_of_1_to_32_gpus_is_reproduced() -> None:
    sizes = measured(job(LADDER, *CHAPTER))

    assert [size["gpus"] for size in sizes] == [1, 2, 4, 8, 16, 32]
    assert [round(100 * size["efficiency"][1]) for size in sizes] == [100, 96, 90, 88, 87, 86]
    assert [round(size["speedup"][1], 2) for size in sizes] == [1.0, 1.92, 3.6, 7.02, 13.89, 27.48]
    assert [round(1e3 * size["tax_s"][1], 1) for size in sizes] == [0.0, 34.7, 86.8, 110.2, 119.3, 129.1]
    assert [round(size["doubling_efficiency"][1], 4) for size in sizes[1:]] == [0.9577, 0.9403, 0.9739, 0.9899, 0.9894]
    assert round(sizes[-1]["cost_factor"][1], 4) == 1.1643


def test_the_table_is_printed_with_its_efficiencies() -> None:
    printed = run(LADDER, *CHAPTER).output

    for efficiency in ("100 %", "96 %", "90 %", "88 %", "87 %", "86 %"):
        assert efficiency in printed
    assert "weak: a GPU does the same work at every size" in printed


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_page_and_the_efficiency_is_always_there(columns: int) -> None:
    printed = run(LADDER, "--gpu-hour-price", "2", "--power-w", "700", columns=columns).output

    assert max(len(line) for line in printed.splitlines()) <= columns
    assert "efficiency" in printed


@pytest.mark.parametrize("known", [3, 4, 5])
def test_sizes_that_are_held_back_lie_in_the_range(known: int, tmp_path: Path) -> None:
    rates = {1: 48229, 2: 46188, 4: 43432, 8: 42297, 16: 41869, 32: 41424}
    rows = "".join(f"{gpus},{rate}\n" for gpus, rate in list(rates.items())[:known])
    found = job(table(tmp_path / "runs.csv", "gpus,tokens_per_s_per_gpu\n" + rows), "--up-to", "32")

    for size in found["sizes"]:  # type: ignore[attr-defined]
        low, _, high = size["tokens_per_s_per_gpu"]
        assert low * 0.99 <= rates[size["gpus"]] <= high * 1.01


def test_fewer_sizes_leave_a_wider_range(tmp_path: Path) -> None:
    two = job(table(tmp_path / "two.csv", "gpus,tokens_per_s_per_gpu\n1,1000\n8,900\n"), "--up-to", "64")
    three = job(table(tmp_path / "three.csv", "gpus,tokens_per_s_per_gpu\n1,1000\n8,900\n32,880\n"), "--up-to", "64")

    (wide_low, _, wide_high), (low, _, high) = two["sizes"][-1]["efficiency"], three["sizes"][-1]["efficiency"]  # type: ignore[index]
    assert wide_low < low < high <= wide_high


def test_one_size_says_nothing_of_others(tmp_path: Path) -> None:
    found = job(table(tmp_path / "one.csv", "gpus,tokens_per_s_per_gpu\n8,900\n8,910\n"))

    assert found["wall"]["earliest"] is None  # type: ignore[index]
    assert found["because"] == "all runs have 8 GPUs: how a job grows takes two sizes at least"
    assert len(found["sizes"]) == 1  # type: ignore[arg-type]


def test_the_wall_is_where_what_grows_passes_the_work(tmp_path: Path) -> None:
    rows = "".join(f"{n},{1000 / (1 + 0.05 * (n - 1)):.3f}\n" for n in (1, 2, 4, 8, 16))  # latency of a ring: N - 1
    wall = job(table(tmp_path / "ring.csv", "gpus,tokens_per_s_per_gpu\n" + rows))["wall"]

    assert wall["earliest"] <= 21 <= wall["latest"]  # type: ignore[index]
    assert wall["earliest"] >= 18  # type: ignore[index]


def test_the_ladder_has_no_wall_within_its_horizon() -> None:
    wall = job(LADDER, *CHAPTER)["wall"]

    assert wall == {"earliest": None, "likely": None, "latest": None, "horizon": 2048, "because": ""}
    assert "none up to 2,048 GPUs" in run(LADDER, *CHAPTER).output


def test_runs_inside_one_node_say_nothing_of_two(tmp_path: Path) -> None:
    found = job(table(tmp_path / "node.csv", "gpus,nodes,tokens_per_s_per_gpu\n1,1,1000\n2,1,980\n8,1,930\n"))

    assert "no run spans two nodes" in found["wall"]["because"]  # type: ignore[index]
    assert [size["gpus"] for size in found["sizes"]] == [1, 2, 8]  # type: ignore[attr-defined]


def test_runs_of_different_work_are_not_extrapolated(tmp_path: Path) -> None:
    found = job(table(tmp_path / "odd.csv", "gpus,tokens_per_s_per_gpu\n1,1000\n8,1900\n"))

    assert found["because"].startswith("a GPU is 1.90 times as fast among 8 as among 1")  # type: ignore[attr-defined]


WORK = "gpus,step_time_ms,global_batch_size,seq_len\n"


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ("1,500,8,1024\n8,520,64,1024\n", "weak"),
        ("1,500,64,1024\n8,80,64,1024\n", "strong"),
        ("1,500,64,1024\n8,200,128,1024\n", "mixed"),
    ],
)
def test_the_tokens_of_a_step_tell_weak_from_strong(rows: str, kind: str, tmp_path: Path) -> None:
    assert job(table(tmp_path / "work.csv", WORK + rows), "--by", "seq_len")["kind"] == kind


def test_sequences_alone_tell_weak_from_strong(tmp_path: Path) -> None:
    rows = "gpus,tokens_per_s_per_gpu,global_batch_size\n8,100,64\n16,90,64\n"
    found = job(table(tmp_path / "sequences.csv", rows))

    assert found["kind"] == "strong"
    assert found["sizes"][0]["step_s"] is None  # type: ignore[index]


def test_rows_of_one_job_share_their_settings_and_the_others_are_counted(tmp_path: Path) -> None:
    rows = "gpus,model,memory_gb,tokens_per_s_per_gpu\n1,a,3,100\n2,a,4,95\n1,b,5,50\n4,b,6,45\n1,c,7,9\n1,a,9,\n"
    done = json.loads(run(table(tmp_path / "models.csv", rows), "--json").stdout)

    assert [(found["name"], len(measured(found))) for found in done["jobs"]] == [("model=a", 2), ("model=b", 2)]
    assert done["notes"] == [
        "1 row has no rate or step time and is left out",
        "1 row has no other with the same settings at another number of GPUs and is left out",
    ]


def test_a_wall_below_the_smallest_run_is_not_placed(tmp_path: Path) -> None:
    rows = "gpus,tokens_per_s_per_gpu\n128,1000\n256,970\n512,930\n"
    printed = run(table(tmp_path / "large.csv", rows)).output

    assert "perhaps below 128 GPUs already, which a smaller run would show" in " ".join(printed.split())


CELL = st.sampled_from(["", "0", "1", "2", "8", "1024", "-3", "1e308", "1e-300", "nan", "inf", "x", "1,5", "9" * 400])


@pytest.mark.long
@given(rows=st.lists(st.lists(CELL, min_size=6, max_size=6), min_size=1, max_size=8), quiet=st.booleans())
def test_no_table_brings_it_down(rows: list[list[str]], quiet: bool) -> None:
    text = "gpus;nodes;tokens_per_s;step_time_ms;global_batch_size;seq_len\n" + "\n".join(map(";".join, rows))
    with TemporaryDirectory() as folder:
        words = [table(Path(folder) / "any.csv", text), "--tokens", "1e12", "--deadline", "1s", "--gpu-hour-price", "3"]
        done = run(*words, "--budget", "1", *(["--json"] if quiet else []))

    assert done.exit_code in (0, 3), done.output
    if quiet and done.exit_code == 0:
        jsonschema.validate(json.loads(done.stdout), ScalingReport.schema())


def test_strong_scaling_keeps_the_tokens_of_a_step(tmp_path: Path) -> None:
    found = job(table(tmp_path / "strong.csv", WORK + "1,800,64,1024\n2,420,64,1024\n4,230,64,1024\n"), "--up-to", "8")
    last = found["sizes"][-1]  # type: ignore[index]

    assert last["tokens_per_step"] == 64 * 1024
    assert 0.1 < last["step_s"][0] < last["step_s"][2] < 0.2


def test_the_answer_follows_its_schema() -> None:
    done = run(LADDER, "--json", "--tokens", "10B", "--gpu-hour-price", "2", "--power-w", "700", "--kg-per-kwh", "0.4")

    jsonschema.validate(json.loads(done.stdout), ScalingReport.schema())
    printed = CliRunner().invoke(main, ["schema", "--of", "scaling"])
    assert json.loads(printed.stdout) == json.loads(json.dumps(ScalingReport.schema()))


ASKED = [*CHAPTER, "--tokens", "10e9", "--gpu-hour-price", "2", "--power-w", "700"]


def purpose(name: str, *words: str) -> dict[str, object]:
    return next(p for p in job(LADDER, *ASKED, *words)["purposes"] if p["purpose"] == name)  # type: ignore[attr-defined]


def test_the_deadline_names_the_fewest_gpus_that_are_in_time() -> None:
    # 10e9 tokens at 338,376 tokens/s (8 GPUs) are 8.2 h, at 669,904 (16) 4.1 h
    assert purpose("deadline", "--deadline", "12h")["gpus"] == 8
    assert purpose("deadline", "--deadline", "5h")["gpus"] == 16
    assert purpose("deadline", "--deadline", "300m")["gpus"] == 16
    assert purpose("deadline", "--deadline", "60s")["gpus"] is None


def test_the_budget_names_the_fastest_that_it_pays_for() -> None:
    # per 10e9 tokens at 2 per GPU-hour: 115.2 on one GPU, 134.1 on 32
    assert purpose("budget", "--budget", "120")["gpus"] == 1
    assert purpose("budget", "--budget", "139", "--up-to", "32")["gpus"] == 32
    assert purpose("budget", "--budget", "50")["gpus"] is None


def test_a_billion_tokens_cost_what_the_hours_of_the_gpus_do() -> None:
    sizes = measured(job(LADDER, *ASKED, "--pue", "1.5", "--kg-per-kwh", "0.5"))

    assert [round(size["billion"]["price"][1], 2) for size in (sizes[0], sizes[-1])] == [11.52, 13.41]  # type: ignore[call-overload]
    kwh = 1e9 / 48229 / 3600 * 0.7 * 1.5
    assert sizes[0]["billion"]["kwh"][1] == pytest.approx(kwh)  # type: ignore[call-overload]
    assert sizes[0]["billion"]["kg_co2e"][1] == pytest.approx(kwh / 2)  # type: ignore[call-overload]
    assert sizes[0]["billion"]["price"][0] < 11.52 < sizes[0]["billion"]["price"][2]  # type: ignore[call-overload]


def test_without_a_price_nothing_is_priced() -> None:
    sizes = measured(job(LADDER, *CHAPTER))

    assert sizes[0]["billion"] == {"price": None, "kwh": None, "kg_co2e": None}
    assert "costs:" not in run(LADDER, *CHAPTER).output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([LADDER, "--deadline", "12h"], "--deadline needs --tokens"),
        ([LADDER, "--budget", "500"], "--budget needs --gpu-hour-price"),
        ([LADDER, "--deadline", "soon", "--tokens", "1e9"], "is not a valid float"),
        ([LADDER, "--where", "nothing=1"], "no column 'nothing' in the table"),
        ([LADDER, "--where", "nothing"], "--where takes COLUMN=TEXT"),
        ([LADDER, "--where", "row=99"], "no row of the table has GPUs and a rate"),
        ([LADDER, "--pue", "0.5", "--power-w", "700"], "0.5 is not in the range"),
        (["no-such-run"], "no such file or folder"),
        (["0=" + LADDER], "one GPU at least"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_message(words: list[str], says: str) -> None:
    done = run(*words)

    assert done.exit_code in (click.UsageError.exit_code, 3)
    assert says in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "text",
    ["", "gpus\n", "gpus,loss\n8,1\n", "gpus,tokens_per_s\n8,nan\n-1,5\n1.5,3\nx,y\n", "gpus,tokens_per_s\n8,1e999\n"],
)
def test_a_table_without_runs_is_refused(text: str, tmp_path: Path) -> None:
    done = run(table(tmp_path / "bad.csv", text))

    assert done.exit_code == 3, done.output
    assert "do:" in done.output
