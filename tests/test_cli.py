"""The command line: what it prints, where, and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diagnoses
import jsonschema
import pytest
from click.testing import CliRunner, Result

from diagnose import __version__
from diagnose.cli import main
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError

COMMANDS = [
    "run",
    "tune",
    "analyze",
    "compare",
    "baseline",
    "data",
    "fit",
    "series",
    "watch",
    "hang",
    "memory",
    "ledger",
    "mcp",
    "skill",
    "rules",
    "explain",
    "metrics",
    "hardware",
    "doctor",
    "schema",
    "completion",
]


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


@pytest.fixture
def analysis_gives(monkeypatch: pytest.MonkeyPatch) -> Callable[[Diagnosis | BaseException], list[Any]]:
    """Replaces the analysis; the list receives the options it was called with."""

    def install(outcome: Diagnosis | BaseException) -> list[Any]:
        seen: list[Any] = []

        def analyze(path: Path, *, options: Any) -> Diagnosis:
            seen.append((path, options))
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr("diagnose.analysis.analyze", analyze)
        return seen

    return install


def test_help_lists_every_command_and_each_has_help_with_an_example() -> None:
    listed = run("--help").stdout

    for command in COMMANDS:
        page = run(command, "--help")
        assert f"\n  {command}" in listed
        assert page.exit_code == 0
        assert f"Example:  diagnose {command}" in page.stdout


def test_help_lists_commands_by_what_they_are_for() -> None:
    listed = run("--help").stdout

    headings = ["Profile a job:", "Read what a job left:", "Plan a job:", "Look up:"]
    places = [listed.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)
    assert places[0] < listed.index("\n  run ") < places[1] < listed.index("\n  analyze ") < places[2]


def test_the_short_help_of_each_command_is_the_first_sentence_of_its_help() -> None:
    for name, (_, short) in main.commands_at.items():
        command = main.get_command(None, name)
        assert command is not None
        assert command.help is not None
        assert command.help.startswith(short.removesuffix("."))


def test_version() -> None:
    assert run("--version").stdout == f"diagnose, version {__version__}\n"


def test_analyze_prints_the_report(analysis_gives: Callable[..., list[Any]]) -> None:
    seen = analysis_gives(diagnoses.data_bound())

    stated = ["--flops-per-step", "1e12", "--peak-tflops", "989", "--hbm-gbs", "1631"]
    result = run("analyze", "t.json", *stated, "--run", "a", "--rules", "r")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("verdict   data-bound")
    [(path, options)] = seen
    assert path == "t.json"
    assert (options.flops_per_step, options.peak_tflops, options.hbm_gbs) == (1e12, 989.0, 1631.0)
    assert options.run == "a"
    assert options.rules_dirs == (Path("r"),)


@pytest.mark.parametrize("case", [diagnoses.diagnosis, diagnoses.data_bound, diagnoses.hostile, diagnoses.undecided])
def test_json_is_one_object_that_follows_the_schema(
    analysis_gives: Callable[..., list[Any]], case: Callable[[], Diagnosis]
) -> None:
    analysis_gives(case())

    result = run("analyze", "t.json", "--json")

    assert result.stderr == ""
    jsonschema.validate(json.loads(result.stdout), Diagnosis.schema())
    assert result.stdout.startswith("{")
    assert result.stdout.endswith("}\n")


def test_details_prints_more_and_quiet_only_the_first_lines(
    analysis_gives: Callable[..., list[Any]],
) -> None:
    analysis_gives(diagnoses.data_bound())
    default, details, quiet = (run("analyze", "t.json", *args).stdout for args in ([], ["--details"], ["-q"]))

    assert len(quiet.splitlines()) < 6 < len(default.splitlines()) < len(details.splitlines())
    assert [line.split()[0] for line in quiet.splitlines() if line[0] != " "] == ["verdict", "why", "next", "gain"]


@pytest.mark.parametrize("columns", ["0", "1", "x", ""])
def test_an_odd_width_still_prints_the_report(
    analysis_gives: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    analysis_gives(diagnoses.data_bound())

    assert run("analyze", "t.json", "-q").stdout.startswith("verdict   data-bound")


def test_schema_prints_the_schema() -> None:
    assert json.loads(run("schema").stdout) == json.loads(json.dumps(Diagnosis.schema()))


@pytest.mark.parametrize(
    ("severity", "found", "code"),
    [("critical", "data_bound", 1), ("warning", "data_bound", 1), ("info", "diagnosis", 0), ("critical", "hostile", 0)],
)
def test_fail_on(analysis_gives: Callable[..., list[Any]], severity: str, found: str, code: int) -> None:
    analysis_gives(getattr(diagnoses, found)())

    result = run("analyze", "t.json", "--fail-on", severity)

    assert result.exit_code == code
    assert result.stdout.startswith("verdict ")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["analyse", "t.json"], "Did you mean 'analyze'?"),
        (["analyze"], "Missing argument 'PATH'"),
        (["analyze", "t.json", "--peak-tflops", "0"], "--peak-tflops"),
        (["analyze", "t.json", "--peak-tflops", "many"], "--peak-tflops"),
        (["analyze", "t.json", "--peak-tflops", "inf"], "--peak-tflops"),
        (["analyze", "t.json", "--flops-per-step", "nan"], "--flops-per-step"),
        (["analyze", "t.json", "--hbm-gbs", "0"], "--hbm-gbs"),
        (["analyze", "t.json", "--hbm-gbs", "1e-320"], "not between 1e-30 and 1e+30"),
        (["analyze", "t.json", "--gpu-hour-price", "1e308"], "not between 1e-30 and 1e+30"),
        (["fleet", ".", "--gpu-hour-price", "1e308"], "not between 1e-30 and 1e+30"),
        (["analyze", "t.json", "--hbm-gbs", "inf"], "--hbm-gbs"),
        (["analyze", "t.json", "--fail-on", "sometimes"], "--fail-on"),
        (["analyze", "t.json", "--jsn"], "--json"),
        (
            ["analyze", "t.json", "--json", "--quiet"],
            "Choose one of --json, --details, --quiet, --annotations and --markdown -.",
        ),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_right(args: list[str], says: str) -> None:
    result = run(*args)

    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_unusable_input_exits_3_with_what_where_why_and_what_to_do(analysis_gives: Callable[..., list[Any]]) -> None:
    analysis_gives(UserError("not a trace", where="x\x1b.json", why="it is a JPEG", do="pass the .json file"))

    result = run("analyze", "x.json")

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "Error: not a trace: x\\x1b.json\n  why: it is a JPEG\n  do:  pass the .json file\n"


def test_a_defect_exits_70_with_one_line(analysis_gives: Callable[..., list[Any]]) -> None:
    analysis_gives(KeyError("x\x1b[31m"))

    result = run("analyze", "x.json")

    assert (result.exit_code, result.stdout) == (70, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("KeyError: ")
    assert "\x1b" not in result.stderr
    assert "this is a bug in diagnose; run with DIAGNOSE_TRACEBACK=1 for details" in result.stderr


def test_a_defect_shows_its_traceback_when_asked(
    analysis_gives: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis_gives(KeyError("x"))
    monkeypatch.setenv("DIAGNOSE_TRACEBACK", "1")

    result = run("analyze", "x.json")

    assert result.exit_code == 70
    assert "Traceback (most recent call last)" in result.stderr


def test_interrupted_exits_130_with_one_line(analysis_gives: Callable[..., list[Any]]) -> None:
    analysis_gives(KeyboardInterrupt())

    result = run("analyze", "x.json")

    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_out_of_memory_is_not_called_a_defect(analysis_gives: Callable[..., list[Any]]) -> None:
    analysis_gives(MemoryError())

    result = run("analyze", "x.json")

    assert result.exit_code == 3
    assert "out of memory" in result.stderr


def test_metrics_and_rules_are_listed_and_explained() -> None:
    names = [line.split()[0] for line in run("rules").stdout.splitlines() if not line.startswith(" ")]

    page = run("explain", names[0], "--rule")

    assert "data_wait_share  share of the " in run("metrics").stdout
    assert page.stdout.startswith(names[0])
    for label in ("says:", "do:", "unless:", "facts:", "examples:"):
        assert f"\n{label}" in page.stdout


def test_explain_says_which_lines_a_finding_names() -> None:
    page = " ".join(run("explain", "straggler", "--rule").stdout.split())

    assert 'names: lines beyond the other ranks, where straggler_cause == "host"' in page


def test_explain_suggests_the_nearest_rule() -> None:
    name = run("rules").stdout.split()[0]

    result = run("explain", name[:-1])

    assert result.exit_code == 2
    assert f"did you mean {name} (rule)" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("analyze",),
        ("compare", "."),
        ("baseline", "save", "x"),
        ("baseline", "check", "x"),
        ("hang",),
        ("memory",),
        ("series",),
        ("trigger",),
        ("watch",),
    ],
)
def test_a_file_that_may_not_be_read_is_unusable_input_and_no_wrong_usage(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "secret.json"
    file.write_text("{}")
    monkeypatch.setattr("os.access", lambda *_given, **_more: False)

    assert run(*command, str(file)).exit_code == UserError.exit_code
