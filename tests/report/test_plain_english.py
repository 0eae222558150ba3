"""What users read is plain English: the first lines of every command, its help, and the sentences of the rules."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from data_pipeline.measurements import made, rounds, spent
from kept_promises import missed, promise
from over_all import over_all
from report.avoided import AVOIDED, AVOIDED_IN_FIRST_LINES, WEAK_BEGINNING
from report.printed import piped

from diagnose.cli import main
from diagnose.commands.data.judge import report_of
from diagnose.commands.data.question import LoaderQuestion
from diagnose.commands.data.text import render as render_data
from diagnose.commands.doctor.answer import Check, Checked
from diagnose.commands.doctor.text import render as render_doctor
from diagnose.commands.ledger.keeping import record
from diagnose.commands.tune.answer import DONE, LeftToUser, Rung, Tuning
from diagnose.commands.tune.text import render_end
from diagnose.metrics import units
from diagnose.rule import Rule, load_rules

ROOT = Path(__file__).parents[2]
DUMPS, TRACES = ROOT / "sample_traces" / "dumps", ROOT / "sample_traces"
LINES, COLUMNS = 16, 80
FIRST = ("verdict", "result")
RULES = load_rules((), units())
TUNING = Tuning(
    command=("train.py",),
    rungs=(Rung(number=0, change="the job as it is", outcome="ok", decision="first"),),
    left=(LeftToUser(rule="host-python", change="move Python out of the step", because="needs a change of your code"),),
    why_ended=DONE,
)
CHECKED = Checked(checks=(Check("torch", "warn", "cannot be imported"), Check("NVML", "unknown", "no driver")))
PIPELINE = made(
    fetch=spent(50, [100.0] * 5), collate=spent(50, [900.0] * 5), workers=[rounds(1, 10, 1000.0)], stacks={}
)


def steps(folder: Path, times: list[float]) -> str:
    """A log of step times in milliseconds."""
    log = folder / "steps.csv"
    log.write_text("step,step_time_ms\n" + "".join(f"{at},{time}\n" for at, time in enumerate(times)))
    return str(log)


USUAL = [100.0 + at % 7 for at in range(300)]
SAMPLES: dict[str, Callable[[Path], list[str]]] = {
    **{f"hang {name.name}": lambda _, name=name: ["hang", str(name)] for name in sorted(DUMPS.glob("hang-*"))},  # type: ignore[misc]
    **{f"memory {name.stem}": lambda _, name=name: ["memory", str(name)] for name in sorted(DUMPS.glob("*.pickle"))},  # type: ignore[misc]
    "compare": lambda _: ["compare", str(TRACES / "cpu-slow-loader.json.gz"), str(TRACES / "cpu-healthy.json.gz")],
    "compare equal": lambda _: ["compare", *[str(TRACES / "cpu-healthy.json.gz")] * 2],
    "series steady": lambda folder: ["series", steps(folder, USUAL)],
    "series one slow step": lambda folder: ["series", steps(folder, [*USUAL[:200], 1000.0, *USUAL[201:]])],
    "series slower": lambda folder: ["series", steps(folder, [*USUAL, *[150.0 + at % 7 for at in range(300)]])],
    "series few": lambda folder: ["series", steps(folder, [67.0 * 1.2**at for at in range(19)])],
    "scaling": lambda _: ["scaling", str(ROOT / "benchmarks" / "ladder.csv"), "--where", "row=15.10"],
    "fleet": lambda _: ["fleet", str(TRACES / "gloo-slow-rank")],
    "ledger empty": lambda _: ["ledger"],
}


def head(page: str) -> list[str]:
    """The lines before the first empty one."""
    return page.split("\n\n")[0].rstrip("\n").splitlines()


def assert_is_plain(lines: list[str]) -> None:
    words = " ".join(" ".join(lines).split())

    assert lines[0].startswith(FIRST)
    assert 1 <= len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert not (found := AVOIDED_IN_FIRST_LINES.search(words)), found
    assert words.count("unknown") <= 1
    assert not any(line.endswith("…") for line in lines)


@pytest.fixture(autouse=True)
def own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_command_begins_with_its_result_in_plain_words(name: str, tmp_path: Path) -> None:
    done = CliRunner(env={"COLUMNS": str(COLUMNS)}).invoke(main, SAMPLES[name](tmp_path))

    assert done.exit_code == 0
    assert_is_plain(head(done.stdout))


def test_a_ledger_with_entries_begins_with_how_many_came_true() -> None:
    assert all(record(each).done for each in (promise(1), promise(2), missed(3), promise(4)))

    lines = head(CliRunner(env={"COLUMNS": str(COLUMNS)}).invoke(main, ["ledger"]).stdout)

    assert_is_plain(lines)
    assert lines[0].startswith("result    3 of 4 predictions came true")


@pytest.mark.parametrize(
    "render",
    [
        lambda console: render_data(report_of(PIPELINE, LoaderQuestion(0.03, "--step-ms")), console),
        lambda console: render_data(report_of(PIPELINE, LoaderQuestion()), console),
        lambda console: render_doctor(CHECKED, console),
        lambda console: render_end(TUNING, "diagnose-runs/tune", console),
    ],
    ids=["data", "data without a step", "doctor", "tune"],
)
def test_a_command_that_needs_a_machine_does_so_too(render: Callable[..., None]) -> None:
    assert_is_plain(head(piped(render, COLUMNS).lstrip("\n")))


def test_one_step_of_ten_times_the_median_is_named_though_nothing_changed(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["series", steps(tmp_path, [*USUAL[:200], 1030.0, *USUAL[201:]])])

    words = " ".join(done.stdout.split())
    assert "step 200 took 1.0 s" in words
    assert re.search(r"spread median 103\.0 ms, p99 1\d\d\.\d ms, longest 1,030\.0 ms \(step 200\)", words)


def test_a_few_steps_are_listed_with_their_growth(tmp_path: Path) -> None:
    words = " ".join(CliRunner().invoke(main, ["series", steps(tmp_path, [100.0, 200.0, 400.0])]).stdout.split())

    assert "result slower: 100.0 ms -> 400.0 ms in 3 steps" in words
    assert "samples 100.0, 200.0, 400.0 ms from step 0 to 2" in words


@pytest.mark.parametrize(("named", "command"), [("cpu-healthy.json.gz", "analyze"), ("dumps", "analyze")])
def test_a_trace_in_the_place_of_a_command_gets_the_command_that_reads_it(named: str, command: str) -> None:
    done = CliRunner().invoke(main, [str(TRACES / named)])

    assert done.exit_code == 2
    assert f"Try: diagnose {command} {TRACES / named}" in " ".join(done.stderr.split())


def commands() -> dict[str, click.Command]:
    """Every command, those of a group by both names."""
    context, found = click.Context(main), {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        found[name] = command
        for inner in command.list_commands(context) if isinstance(command, click.Group) else ():
            found[f"{name} {inner}"] = command.get_command(context, inner)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("name", commands())
def test_help_is_plain_and_its_options_begin_with_a_verb(name: str) -> None:
    command = commands()[name]
    texts = {option.opts[-1]: option.help or "" for option in command.params if isinstance(option, click.Option)}

    assert not (found := AVOIDED.search((command.help or "").replace("COMMAND", ""))), found
    for option, text in texts.items():
        assert not (found := AVOIDED.search(text)), (option, found)
        assert not re.match(r"(The|A|An|How|Which|Whose|Where|What|Folder|Price|Tokens|Number)\b", text), option


def test_details_means_the_same_in_every_command() -> None:
    texts = {
        option.help
        for command in commands().values()
        for option in command.params
        if isinstance(option, click.Option) and "--details" in option.opts
    }

    assert len(texts) == 1


@over_all("rule", RULES)
def test_the_sentences_of_a_rule_are_plain(rule: Rule) -> None:
    for text in (rule.title, rule.says, rule.action, rule.do, rule.unless):
        plain = re.sub(r"\{[^}]*\}", "N", text)

        assert not (found := AVOIDED.search(plain)), (text, found)
        assert not (found := WEAK_BEGINNING.search(plain)), (text, found)
