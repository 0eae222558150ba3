"""Every training framework has all that it needs, and only its own modules decide anything by its name."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import diagnose
from diagnose.patch.job_framework import settings
from diagnose.probes import frameworks
from diagnose.probes.frameworks import BARE_LOOP, FRAMEWORKS, Framework, targets

ROOT = Path(__file__).parent.parent
PACKAGE = Path(diagnose.__file__).parent
TRAINERS = PACKAGE / "probes" / "trainers"
PAGE = (ROOT / "docs" / "capture.md").read_text(encoding="utf-8")
CONSTANTS = {name: value for name, value in vars(frameworks).items() if isinstance(value, Framework)}
COUNTING = [each for each in FRAMEWORKS if any(hook.startswith("trainers.") for hook in each.hooks.values())]
each_of = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
counting = pytest.mark.parametrize("framework", COUNTING, ids=lambda framework: framework.name)


def installed_by(framework: Framework) -> set[str]:
    """The modules of the probes that a row names."""
    return {*framework.hooks.values(), *framework.patches.values(), *framework.input_hooks.values()}


def test_every_row_is_in_the_table_and_none_takes_what_is_anothers() -> None:
    assert set(CONSTANTS.values()) == set(FRAMEWORKS)
    for column in ("name", "key"):
        assert len({getattr(each, column) for each in FRAMEWORKS}) == len(FRAMEWORKS)
    for column in ("packages", "modules", "targets"):
        values = [getattr(value, "name", value) for each in FRAMEWORKS for value in getattr(each, column)]
        assert len(set(values)) == len(values)


@each_of
def test_what_is_hooked_has_a_module_that_installs_it(framework: Framework) -> None:
    for module in sorted(installed_by(framework)):
        assert callable(import_module(f"diagnose.probes.{module}").install)


def test_every_module_of_a_trainer_is_in_a_row() -> None:
    modules = {f"trainers.{path.stem}" for path in TRAINERS.glob("*.py") if "\ndef install(" in path.read_text("utf-8")}

    assert modules == {hook for each in COUNTING for hook in each.hooks.values()}


@counting
def test_a_trainer_tells_its_own_name(framework: Framework) -> None:
    for hook in set(framework.hooks.values()):
        tree = ast.parse((PACKAGE / "probes" / f"{hook.replace('.', '/')}.py").read_text("utf-8"))

        assert [CONSTANTS[name].name for name in constants_in(tree)] == [framework.name]


@each_of
def test_it_is_recognised_by_what_it_runs(framework: Framework) -> None:
    assert bool(framework.modules) is (framework is not BARE_LOOP)
    assert {module.split(".")[0] for module in framework.modules} <= set(framework.packages)


@each_of
def test_its_settings_are_spelled_and_go_to_what_takes_them(framework: Framework) -> None:
    ways = [setting.ways[framework.key] for setting in settings().values() if framework.key in setting.ways]

    assert ways != []
    assert {way.target for way in ways if way.target} <= targets().keys()
    assert framework.wrapper in targets()
    assert all("{}" in target.typed for target in framework.targets)


@each_of
def test_the_page_names_what_is_watched_and_what_takes_settings(framework: Framework) -> None:
    named = [*framework.hooks, *(target.name for target in framework.targets)]

    assert [name for name in named if f"`{name}`" not in PAGE] == []


@counting
@pytest.mark.parametrize("table", ["| loop | a step ends |", "| job | its numbers |"])
def test_the_page_says_when_its_steps_end_and_how_they_are_numbered(framework: Framework, table: str) -> None:
    rows = PAGE.split(table)[1].split("\n\n")[0].replace("'", "").splitlines()

    assert any(framework.name in row.split("|")[1] for row in rows[2:])


@counting
def test_a_real_process_has_run_it(framework: Framework) -> None:
    tests = [path.read_text("utf-8") for path in (ROOT / "tests" / "capture").glob("test_*.py")]

    assert any(f'"{framework.name}"' in text for text in tests)


def test_no_other_table_has_its_packages() -> None:
    listed = tomllib.loads((PACKAGE / "data" / "python_libraries.toml").read_text("utf-8"))
    packages = {name for each in FRAMEWORKS for name in each.packages}

    assert packages & {name for names in listed.values() for name in names} == set()


# What is decided by the name of a framework is the table's; other modules that have such a name in a text are listed
# with the reason. `transformers` and `torch` are more than a framework, so their names alone are left out.
_WORDS = (
    [each.name for each in FRAMEWORKS]
    + [name for each in FRAMEWORKS for name in each.packages if name not in ("torch", "transformers")]
    + [module for each in FRAMEWORKS for module in each.modules if module.startswith("transformers.")]
)
_ALTERNATIVES = "|".join(re.escape(word).replace("\\.", "[./]") for word in _WORDS)
SPELLS = re.compile(rf"\b({_ALTERNATIVES})\b", re.IGNORECASE)
MAY_SPELL = {
    "data/settings.toml": "how settings are made with each, by the key of its row",
    "data/log_remedies.toml": "what shortens stalls, in the words of the program that wrote the log",
    "data/capture.schema.json": "versions of packages in the record, and examples of names",
    "trace/record_fields.py": "versions of packages in the record",
    "trace/vocabulary.py": "names of collectives and ranges of exchanges in a trace",
    "metrics/communication/together.py": "the wrappers that make ranks one job",
    "metrics/run/training_loop.py": "a loop that nothing else runs, and records with the Trainer's settings alone",
    "judge/start_advice.py": "what skips the batches of a resume, by the loop that does",
    "patch/job_framework.py": "PyTorch's own words where the framework is not known",
    "commands/doctor/checks.py": "versions of packages",
    "commands/fit/launch.py": "the configuration file of accelerate's launcher, which a plan writes",
    "commands/memory/stacks.py": "files on a stack of allocations: of an optimizer, of a loop of training",
    "series/columns.py": "columns that only one program writes",
    "series/sources.py": "a state that only one program writes",
    "series/log_formats.py": "a format of log files, whatever wrote them",
    "metrics/lines/callees.py": "a package between a line of the user's and the training library's loop",
    "probes/announced.py": "names of loggers",
    "probes/announcements.py": "messages of libraries, by their loggers",
    "probes/frameworks.py": "the table",
    "probes/apply/collator.py": "the loaders of the Trainer, whose patches install it",
    "probes/apply/compile.py": "a wrapper around the model, in any loop",
    "probes/apply/of_arguments.py": "an argument of transformers' TrainingArguments",
    "probes/apply/reasons.py": "sentences",
    "probes/apply/recorded.py": "the plugin by which accelerate compiles, in any loop",
    "probes/apply/worker_split.py": "packages whose datasets ask for the worker to seed it",
    "probes/facts/machine.py": "versions of packages",
    "probes/hooks/accelerate_hooks.py": "hooks in accelerate, in any loop",
    "probes/hooks/backward_hooks.py": "hooks of other frameworks that count their own steps",
    "probes/interrupts.py": "packages whose exceptions reach the probes",
    "probes/reporting/log_calls.py": "adds to what their loggers are given",
    "probes/reporting/report.py": "logs by the Trainer that it is a callback of",
}


def constants_in(tree: ast.AST) -> list[str]:
    """The rows of the table that a module imports, or takes from the module of the table."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "frameworks":
            found.append(node.attr)
    return [name for name in found if name in CONSTANTS]


def spelled(path: Path) -> Iterator[str]:
    """The names of frameworks in a file: in texts that are no docstrings, and as imported rows of the table."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield from (found[0] for found in SPELLS.finditer(text))
        return
    if not SPELLS.search(text) and not any(name in text for name in CONSTANTS):
        return
    tree = ast.parse(text)
    yield from constants_in(tree)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from (found[0] for found in SPELLS.finditer(node.value))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('if loop == "DeepSpeed":\n    pass', "DeepSpeed"),
        ('"""A page."""\nFILES = f"{root}/lightning/pytorch"', "lightning"),
        ('LIBRARIES = {"accelerate.": 1}', "accelerate"),
        ('import_module("transformers.trainer")', "transformers.trainer"),
        ("from ..frameworks import LIGHTNING as ours", "LIGHTNING"),
        ("found = frameworks.ACCELERATE.name", "ACCELERATE"),
        ('def f():\n    """As Lightning does it."""\nTEXT = "a model of transformers, accelerated"', None),
    ],
)
def test_each_form_of_a_name_is_seen(text: str, name: str | None, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)

    assert set(spelled(path)) == ({name} if name else set())


def test_no_other_module_decides_by_a_name() -> None:
    own = {f"probes/{module.replace('.', '/')}.py" for each in FRAMEWORKS for module in installed_by(each)}
    own |= {f"rules/{path.name}" for path in (PACKAGE / "rules").glob("*.toml")}
    files = [path for pattern in ("*.py", "*.toml", "*.json") for path in PACKAGE.rglob(pattern)]
    files += (PACKAGE / "probes").resolve().rglob("*.py")
    named = {}
    for path in files:
        found = sorted(set(spelled(path)))
        name = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else (PACKAGE / "probes").resolve().parent)
        if found and name.as_posix() not in own:
            named[name.as_posix()] = found

    assert named.keys() == MAY_SPELL.keys(), named
