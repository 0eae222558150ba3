"""transformers' Trainer with `DiagnoseCallback`: what its loggers get of a window, and that training never notices."""

import json
import platform
import subprocess
from pathlib import Path

import pytest
from capture.scripts import TRAINER, run, said
from integrations.told import RECORDING, SAMPLES, diagnosed, figures_of, got
from needs import needs

needs("transformers", "accelerate")
pytestmark = pytest.mark.capture

# The analysis has its own tests, so most runs here are told the diagnosis of a sample, at once.
AT_ONCE = """
from diagnose.probes.reporting import analysis
def analysed(folder, begun):
    return json.load(open(sys.argv[1] + "/sample.json"))
analysis.analysed = analysed
"""
CALLBACK = """
from diagnose.probes import DiagnoseCallback
callback = DiagnoseCallback(sys.argv[1] + "/out", steps=2, skip=2, sample_steps=0{more})
"""
LINE = "diagnose: data-bound, num_workers=4, persistent_workers=True buys 1.36x"


def script(*parts: str, more: str = "") -> str:
    return "".join((TRAINER, RECORDING, CALLBACK.format(more=more), *parts))


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Of stderr, without the name that the loggers of transformers 5 put before each."""
    return [line.removeprefix("[transformers] ") for line in done.stderr.splitlines()]


def faults(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What diagnose says on stderr beside the line of a window."""
    return [line for line in said(done) if line != LINE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sample.json").write_text(json.dumps(diagnosed("cpu-slow-loader.json.gz")))
    return tmp_path


def test_a_window_is_analysed_and_its_figures_reach_the_loggers(tmp_path: Path) -> None:
    """Nothing is in the place of the analysis, which waits for no idle core here."""
    soon = "from diagnose.probes.reporting import analysis, report\nreport.AT_THE_END_S = 250\n"
    soon += "analysis._PROGRAM = analysis._PROGRAM.replace('nice(19)', 'nice(0)')\n"
    done = run(script(soon, "told(callback, Recording(), max_steps=40).train()\n"), tmp_path)

    assert done.returncode == 0, done.stderr
    (figures,) = figures_of(done.stdout)
    percents = [value for name, value in figures.items() if name.endswith("_percent")]
    assert figures["diagnose/step_ms"] > 0
    assert sum(percents) == pytest.approx(100)
    _verdict, lacks = [line for line in lines(done) if line.startswith("diagnose: ")]
    assert "diagnose: no live " in lacks
    assert "mfu_percent (the trace has no GPU activity" in lacks
    for word in (str(tmp_path), platform.node()):
        assert word not in json.dumps(figures)


def test_the_line_and_the_figures_come_while_training_goes_on(folder: Path) -> None:
    waits = (
        "import time\ndef during(step):\n"
        "    while step == 40 and callback.report.windows.analysis and not callback.report.windows.analysis.ended:\n"
        "        time.sleep(0.01)\n"
    )
    done = run(script(AT_ONCE, waits, "told(callback, Recording(), max_steps=80).train()\n"), folder)

    assert done.returncode == 0, done.stderr
    steps = [step for step, logs in got(done.stdout) if "diagnose/step_ms" in logs]
    assert len(steps) == 1
    assert steps[0] < 80
    assert LINE in lines(done)


def test_the_jobs_own_logs_are_those_of_a_run_without_it(folder: Path) -> None:
    """The figures come between two steps: at the end of one they would take the place of its loss."""
    with_it = run(script(AT_ONCE, "told(callback, Recording(), logging_steps=1).train()\nfinish()\n"), folder)
    plain = run(TRAINER + RECORDING + "told(Recording(), logging_steps=1).train()\nfinish()\n", folder / "plain")

    losses = [[(step, logs["loss"]) for step, logs in got(done.stdout) if "loss" in logs] for done in (with_it, plain)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 24
    assert len(figures_of(with_it.stdout)) == 1
    assert (folder / "final.pt").read_bytes() == (folder / "plain" / "final.pt").read_bytes()


def test_each_log_of_the_training_has_the_speed_since_the_last_one(folder: Path) -> None:
    history = "made = told(callback, Recording(), logging_steps=4)\nmade.train()\nfinish()\n"
    history += "print('HISTORY', any('live' in name for logs in made.state.log_history for name in logs))\n"
    done = run(script(AT_ONCE, history), folder)

    assert done.returncode == 0, done.stderr
    assert "HISTORY False" in done.stdout
    live = [logs for _, logs in got(done.stdout) if "diagnose/live_step_ms" in logs]
    assert [step for step, logs in got(done.stdout) if "loss" in logs] == [4, 8, 12, 16, 20, 24]
    assert len(live) == 6
    for logs in live:
        assert 0 < logs["diagnose/live_step_ms"] < 60_000
        assert 0 <= logs["diagnose/live_waiting_percent"] <= 100
        samples = logs["diagnose/live_samples_per_s"] * logs["diagnose/live_step_ms"] / 1e3
        assert samples == pytest.approx(round(samples))
    assert "diagnose/live_mfu_percent" not in live[-1]  # the peak of this CPU is not known


def test_a_short_training_waits_for_the_analysis_before_the_loggers_close(folder: Path) -> None:
    closing = "class Closing(Recording):\n    def on_train_end(self, *args, **more):\n        print('CLOSED')\n"
    done = run(script(AT_ONCE, closing, "told(Closing(), callback, max_steps=6).train()\n"), folder)

    assert done.returncode == 0, done.stderr
    assert "diagnose/step_ms" in done.stdout.split("CLOSED")[0]


def test_an_analysis_that_takes_too_long_is_not_waited_for(folder: Path) -> None:
    late = "import time\nanalysis.analysed = lambda folder, begun: time.sleep(60)\n"
    late += "from diagnose.probes.reporting import report\nreport.AT_THE_END_S = 0.1\n"
    done = run(script(AT_ONCE, late, "told(callback, Recording()).train()\nprint('ENDED')\n"), folder)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ENDED"
    assert said(done) == ["diagnose: training ended before the window was analysed: diagnose analyze tells it"]


def test_settings_that_fail_on_a_finding_fail_no_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diagnose.probes.reporting import analysis

    monkeypatch.setattr(analysis, "_PROGRAM", analysis._PROGRAM.replace("nice(19)", "nice(0)"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "diagnose.toml").write_text('[analyze]\nfail-on = "critical"\n')
    assert (
        analysis.analysed(SAMPLES / "cpu-slow-loader.json.gz", lambda process: None)["verdict"]["class"] == "data-bound"
    )


def test_an_analysis_that_fails_is_a_line(tmp_path: Path) -> None:
    fails = "from diagnose.probes.reporting import analysis\nanalysis._PROGRAM = 'raise SystemExit(\"no room\")'\n"
    done = run(script(fails, "told(callback, Recording()).train()\nprint('ENDED')\n"), tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ENDED"
    assert said(done) == ["diagnose: the window is not analysed: RuntimeError: no room"]


def test_a_logger_that_fails_costs_the_figures_and_not_the_job(folder: Path) -> None:
    fails = (
        "class Failing(TrainerCallback):\n    def on_log(self, args, state, control, logs=None, **more):\n"
        "        if 'diagnose/step_ms' in logs: raise ValueError('no such metric')\n"
    )
    done = run(script(AT_ONCE, fails, "told(callback, Failing()).train()\nprint('ENDED')\n"), folder)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ENDED"
    assert faults(done) == ["diagnose: no figures logged: ValueError: no such metric"]


def test_the_log_of_a_subclass_is_left_to_the_job(folder: Path) -> None:
    """TRL's clears there what it gathers between two logs."""
    own = (
        "class Clearing(Own):\n    def log(self, logs, *more):\n        print('OWN', sorted(logs))\n"
        "        super().log(logs, *more)\n"
    )
    done = run(script(AT_ONCE, own, "told(callback, Recording(), kind=Clearing).train()\n"), folder)

    assert done.returncode == 0, done.stderr
    assert len(figures_of(done.stdout)) == 1
    assert not [line for line in done.stdout.splitlines() if line.startswith("OWN") and "diagnose" in line]


def test_other_ranks_tell_nothing(folder: Path) -> None:
    """The rank is set once torch and transformers are there, which would look for the others."""
    text = script(AT_ONCE, "told(callback, Recording()).train()\n")
    done = run(text.replace("callback = Diag", "import os; os.environ['RANK'] = '1'\ncallback = Diag"), folder)

    assert done.returncode == 0, done.stderr
    assert figures_of(done.stdout) == []
    assert LINE not in done.stderr
    assert (folder / "out" / "rank1.json.gz").exists()


def test_a_callback_without_log_captures_alone(folder: Path) -> None:
    done = run(script(AT_ONCE, "told(callback, Recording()).train()\n", more=", log=False"), folder)

    assert done.returncode == 0, done.stderr
    assert figures_of(done.stdout) == []
    assert (folder / "out" / "rank0.json.gz").exists()


def test_a_callback_that_is_not_made_costs_nothing(tmp_path: Path) -> None:
    """It is imported, as where a script makes it on request alone; the second line is of one that is made."""
    state = (
        "def state():\n    kinds = (Trainer, torch.utils.data.DataLoader, torch.optim.AdamW)\n"
        "    hooked = [name for kind in kinds for name, made in vars(kind).items() if hasattr(made, '__diagnose__')]\n"
        "    print('STATE', bool(hooked), any('probes.reporting' in name for name in sys.modules))\n"
    )
    off = "from diagnose.probes import DiagnoseCallback\nmade = trainer()\nmade.train()\nstate()\n"
    off += "print('OURS', [each for each in made.callback_handler.callbacks if 'diagnose' in type(each).__module__])\n"
    done = run(TRAINER + state + off + "DiagnoseCallback(sys.argv[1] + '/out')\nstate()\n", tmp_path)

    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith(("STATE", "OURS"))]
    assert told == ["STATE False False", "OURS []", "STATE True True"]
    assert said(done) == []


def test_a_trainer_without_the_callback_is_told_by_option(folder: Path) -> None:
    """As `diagnose run --log` asks for it."""
    window = {"steps": 2, "skip": 2, "sample_steps": 0, "log": True}
    done = run(TRAINER + RECORDING + AT_ONCE + "told(Recording()).train()\n", folder, window)

    assert done.returncode == 0, done.stderr
    assert len(figures_of(done.stdout)) == 1
    assert LINE in lines(done)


def test_the_option_reaches_the_job() -> None:
    from dataclasses import replace

    from diagnose.commands.run.command import run as command
    from diagnose.probes.config import Config

    assert "log" in {parameter.name for parameter in command.params}
    assert json.loads(replace(Config("out"), log=True).to_json())["log"] is True
