"""What `fit --json` wrote, read by `scaling` and `compare`: predicted against predicted, and against measured."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.answer import FitAnswer
from diagnose.predict.planned_run import NEWEST

JOB = "fit --model 1b --gpu H100-64GB-MN5 --seq-len 1024 --micro-batch 4"


def run(line, code=0):
    done = CliRunner().invoke(main, line.split(), prog_name="diagnose")
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


def forecast(tmp_path, name, options, change=None):
    """A forecast in a file, with changes made to its object."""
    made = json.loads(run(f"{JOB} {options} --json"))
    if change:
        change(made)
    (tmp_path / name).write_text(json.dumps(made))
    return tmp_path / name


def lasting(likely, low, high):
    return lambda made: made["step"].update(seconds=likely, seconds_range=[low, high])


def log(tmp_path, seconds):
    rows = [f"{step},{seconds * (1 + 0.001 * (step % 3))}" for step in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["step,step_time_s", *rows]))
    return tmp_path / "log.csv"


def test_readers_know_the_version_that_is_written():
    assert FitAnswer.version() == NEWEST


def test_scaling_reads_every_number_of_gpus_of_a_forecast(tmp_path):
    made = forecast(tmp_path, "f.json", "--gpus 2,4,8")
    (job,) = json.loads(run(f"scaling {made} --json --up-to 8"))["jobs"]
    steps = {each["plan"]["gpus"]: each["step"]["tokens_per_s"] for each in json.loads(made.read_text())["by_gpus"]}
    assert {size["gpus"]: size["tokens_per_s"][1] for size in job["sizes"]} == pytest.approx(steps)
    assert "is a forecast of diagnose fit: its sizes were not run" in " ".join(run(f"scaling {made}").split())


def test_scaling_takes_forecasts_from_several_files(tmp_path):
    files = [forecast(tmp_path, f"{gpus}.json", f"--gpus {gpus} --dp {gpus}") for gpus in (2, 4)]
    (job,) = json.loads(run(f"scaling {files[0]} {files[1]} --json"))["jobs"]
    assert [size["gpus"] for size in job["sizes"] if size["runs"]] == [2, 4]


def test_compare_takes_two_forecasts(tmp_path):
    plain, liger = (forecast(tmp_path, f"{name}.json", f"--gpus 8 --dp 8 --{name}") for name in ("no-liger", "liger"))
    made = json.loads(run(f"compare {plain} {liger} --json"))
    steps = [json.loads(file.read_text())["step"]["seconds"] for file in (plain, liger)]
    assert made["speedup"][1] == pytest.approx(steps[0] / steps[1], rel=1e-6)
    assert made["configuration"] == [{"what": "liger", "before": False, "after": True}]


@pytest.mark.parametrize(
    ("measured_s", "verdict", "says"),
    [
        (0.21, "no_difference", "is within the predicted 180.0 ms to 240.0 ms, 5 % above the likely 200.0 ms"),
        (0.40, "worse", "is above the predicted 180.0 ms to 240.0 ms, 100 % above the likely 200.0 ms"),
        (0.10, "better", "is below the predicted 180.0 ms to 240.0 ms, 50 % below the likely 200.0 ms"),
    ],
)
def test_compare_says_whether_a_measured_step_is_in_the_predicted_range(tmp_path, measured_s, verdict, says):
    predicted = forecast(tmp_path, "f.json", "--gpus 8 --dp 8", lasting(0.2, 0.18, 0.24))
    made = json.loads(run(f"compare {predicted} {log(tmp_path, measured_s)} --json"))
    assert made["verdict"] == verdict
    assert says in made["because"]


def test_compare_holds_a_forecast_against_a_diagnosis(tmp_path):
    measured = Path(tmp_path / "d.json")
    samples = Path(__file__).parents[2] / "sample_traces"
    measured.write_text(run(f"analyze {samples}/h200-llama-eager.json.gz --json --tokens-per-step 4096 --no-cache"))
    step_s = json.loads(run(f"compare {measured} {measured} --json"))["before"]["step_ns"] / 1e9

    def alike(made):
        made["plan"].update(gpus=1, nodes=1)
        made["step"].update(tokens=4096, seconds=step_s, seconds_range=[0.9 * step_s, 1.1 * step_s])

    predicted = forecast(tmp_path, "f.json", "", alike)
    made = json.loads(run(f"compare {predicted} {measured} --json"))
    assert [made["verdict"], made["speedup_of"]] == ["no_difference", "step time"]
    assert made["speedup"][1] == pytest.approx(1, rel=1e-6)
    assert made["before"]["predicted_ns"][0] == pytest.approx(0.9e9 * step_s, rel=1e-6)


def test_another_model_is_not_compared(tmp_path):
    one = forecast(tmp_path, "a.json", "")
    other = forecast(tmp_path, "b.json", "", lambda made: made["plan"].update(parameters=10**9))
    assert "the model is another one: parameters" in json.loads(run(f"compare {one} {other} --json"))["because"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda made: made.update(schema_version=1), "its schema_version is 1"),
        (lambda made: made["step"].update(seconds=-1.0), "its times or GPUs are impossible"),
        (lambda made: made["step"].pop("tokens"), "tokens"),
        (lambda made: made["plan"].update(nodes=9), "it has more nodes than GPUs"),
    ],
)
@pytest.mark.parametrize("command", ["compare {0} {0}", "scaling {0}"])
def test_a_damaged_forecast_is_refused_in_a_sentence(tmp_path, change, says, command):
    made = forecast(tmp_path, "f.json", "", change)
    told = " ".join(run(command.format(made), code=3).split())
    assert says in told
    assert "make it again: diagnose fit ... --json" in told


def test_the_report_of_a_comparison_shows_the_predicted_range_in_each_form(tmp_path):
    predicted = forecast(tmp_path, "f.json", "--gpus 8 --dp 8", lasting(0.2, 0.18, 0.24))
    line = f"compare {predicted} {log(tmp_path, 0.21)}"
    assert "predicted 180.0 ms to 240.0 ms -" in " ".join(run(line).split())
    assert "| predicted | 180.0 ms to 240.0 ms |" in run(f"{line} --markdown -")
    run(f"{line} --html {tmp_path}/c.html")
    assert "180.0 ms to 240.0 ms" in (tmp_path / "c.html").read_text()
