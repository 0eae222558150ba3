"""Options that would do nothing are refused, with the option's name and what to do instead."""

from pathlib import Path
from typing import Any

import click
import pytest
from armed_folders import armed_folder
from options.commands import called, commands, options, typed
from over_all import over_all

from diagnose.cli.command import Command
from diagnose.errors import WrongUsage

JOB = ("--", "train.py")


def test_every_command_looks_at_what_its_options_need() -> None:
    assert [words for words, command in commands() if not isinstance(command, Command)] == []


@over_all("option", [option for _, option in options() if not option.is_flag])
def test_no_option_takes_a_number_that_is_none(option: click.Option) -> None:
    taken = [text for text in ("nan", "inf", "-inf", "1e999", "nan%") if isinstance(_taken(option, text), float)]

    assert taken == []


def _taken(option: click.Option, text: str) -> object:
    try:
        return option.type.convert(text, option, None)
    except (click.UsageError, WrongUsage):
        return None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("analyze", "a.json", "--python-functions"), "--python-functions needs --low-memory"),
        (("analyze", "a.json", "--step", "3", "--critical-path"), "choose one of --step and --critical-path"),
        (("run", "--when-slow", "1.3", *JOB), "--when-slow needs --arm"),
        (("run", "--every", "1", *JOB), "--every needs --arm"),
        (("run", "--windows", "1", *JOB), "--windows needs --arm"),
        (("run", "--on-signal", "SIGUSR1", *JOB), "--on-signal needs --arm"),
        (("run", "--arm", "--at-step", "9", "--windows", "2", *JOB), "--windows needs --when-slow or --every"),
        (("run", "--arm", "--skip", "0", *JOB), "choose one of --skip and --arm"),
        (("run", "--at-step", "9", "--skip", "0", *JOB), "choose one of --skip and --at-step"),
        (("run", "--arm", "--markdown", "a.md", *JOB), "--markdown needs a single window"),
        (("run", "--no-sampling", "--sample-steps", "5", *JOB), "choose one of --sample-steps and --no-sampling"),
        (("run", "--no-sampling", "--sample-steps", "0", *JOB), "choose one of --sample-steps and --no-sampling"),
        (("run", "--warmup", "0", *JOB), "--warmup"),
        (("run", "--nsys", "--print", "--budget", "1M", *JOB), "choose one of --budget and --nsys"),
        (("run", "--nsys", "--ranks", "0", *JOB), "choose one of --ranks and --nsys"),
        (("run", "--nsys", "--print", "--json", "a.json", *JOB), "--json has no effect with --print"),
        (("run", "--nsys", "--print", "--apply", "p.json", *JOB), "choose one of --apply and --print"),
        (("run", "--nsys", "--print", "--memory", *JOB), "choose one of --memory and --print"),
        (("run", "--nsys", "--print", "--no-ledger", *JOB), "choose one of --no-ledger and --print"),
        (("tune", "--at-step", "9", "--skip", "0", *JOB), "choose one of --skip and --at-step"),
        (("data", "--step-ms", "9", "--run", "a.json", *JOB), "choose one of --step-ms and --run"),
        (("hang", ".", "--details", "--json"), "--details has no effect with --json"),
        (("memory", "a.pickle", "--details", "--json"), "--details has no effect with --json"),
        (("fleet", ".", "--details", "--json"), "--details has no effect with --json"),
        (("fleet", ".", "--diagnoses-only", "--jobs", "2"), "choose one of --diagnoses-only and --jobs"),
        (("ledger", "--yes"), "--yes needs --clear"),
        (("baseline", "check", "a", "b", "-q", "--annotations"), "Choose one of --quiet, --annotations and --markdown"),
    ],
)
def test_an_option_without_effect_is_refused_before_any_work(words: tuple[str, ...], says: str) -> None:
    done = called(*words)

    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


def test_a_setting_without_effect_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "diagnose.toml").write_text("[analyze]\npython-functions = true\nrank = 0\n")
    monkeypatch.chdir(tmp_path)

    assert called("analyze", armed_folder(tmp_path / "run", windows=[])).exit_code == 0


HONOURED = {
    *("as_json", "rules_dirs", "metrics", "torch_trace", "fail_on", "no_ledger"),
    *("no_cache", "jobs", "scheduler", "low_memory", "python_functions"),
    *("flops_per_step", "params", "seq_len", "tokens_per_step", "peak_tflops", "hbm_gbs", "network_gbs", "gpu"),
    *("gpu_hour_price", "power_w", "pue", "kg_per_kwh", "tokens", "critical_batch", "mtbf_hours", "mfu_as"),
    "step_range",
}
OF_ONE_WINDOW = [o for words, o in options() if words == ("analyze",) and o.name not in {*HONOURED, "run"}]


@pytest.mark.parametrize("option", OF_ONE_WINDOW, ids=lambda option: option.opts[-1])
def test_an_armed_run_refuses_what_is_of_one_window_whatever_its_value(option: click.Option, tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[])

    done = called("analyze", run, *typed(option))

    assert (done.exit_code, done.stdout) == (2, "")
    assert max(option.opts, key=len) in done.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--rules", "nowhere"), "nowhere"),
        (("--step-range", "epoch"), "no range is named like epoch"),
    ],
)
def test_a_value_that_no_window_knows_is_wrong_usage_and_no_unknown(more: Any, says: str, tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[20])

    done = called("analyze", run, *more)

    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


def test_a_kept_diagnosis_takes_nothing_that_is_said_of_traces(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,step_time_s\n" + "".join(f"{step},0.5\n" for step in range(40)))

    refused = called("compare", log, log, "--tokens-per-step", "8e9")
    compared = called("compare", log, log)

    assert (refused.exit_code, compared.exit_code) == (2, 0)
    assert "--tokens-per-step has no effect on a kept diagnosis or a log" in refused.stderr


@pytest.mark.parametrize(
    ("header", "code"), [("step,step_time", 0), ("step,step_time_s", 2), ("step,steps_per_second", 2)]
)
def test_a_unit_is_taken_where_the_log_states_none(header: str, code: int, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"{header}\n" + "".join(f"{step},50\n" for step in range(40)))

    done = called("series", log, "--unit", "ms")

    assert done.exit_code == code
    assert ("--unit has no effect" in done.stderr) == (code == 2)


def test_one_of_several_logs_may_state_its_unit(tmp_path: Path) -> None:
    for name, header in (("a.csv", "step,step_time"), ("b.csv", "step,step_time_s")):
        (tmp_path / name).write_text(f"{header}\n" + "".join(f"{step},5\n" for step in range(40)))

    done = called("series", tmp_path / "a.csv", tmp_path / "b.csv", "--unit", "ms", "--json")

    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("more", [("--unit", "ms"), ("--time-column", "us")])
def test_a_step_log_of_an_armed_run_has_its_own_unit_and_columns(more: tuple[str, str], tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[])

    assert called("series", run / "rank0.steps", *more).exit_code == 2


def test_only_a_table_has_columns_to_choose_by(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,step_time_s\n" + "".join(f"{step},0.5\n" for step in range(40)))

    done = called("scaling", f"8={log}", "--by", "gpus")

    assert (done.exit_code, "--by has no effect" in done.stderr) == (2, True)
