"""The everyday commands, in the environment that is active: `nox --list` names them, `nox -s quick` runs one.

What follows `--` goes to the command: `nox -s tests -- tests/test_cli.py`.
"""

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["quick", "lint", "types"]

PYTEST = ("python", "-m", "pytest", "-n", "2", "--dist", "worksteal")
ELSEWHERE = ("slow", "compat", "gpu")  # what no ordinary run takes; `.ci/slow` does
UNHURRIED = ("capture", "browser", "long", "hypothesis")  # the last is Hypothesis' own mark
WITH_TORCH = (  # whose import takes seconds, so that these are not even collected
    "tests/capture",
    "tests/harmless",
    "tests/formulas/test_breadth.py",
    "tests/formulas/test_flop_counter.py",
    "tests/formulas/test_model_against_transformers.py",
)


@nox.session
def quick(session: nox.Session) -> None:
    """Tests of the analysis without those that start training, browsers or hundreds of mutations."""
    chosen = f"not ({' or '.join((*ELSEWHERE, *UNHURRIED))})"
    session.run(*PYTEST, "-m", chosen, *(f"--ignore={path}" for path in WITH_TORCH), *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests."""
    session.run(*PYTEST, *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and imports that go one way."""
    session.run("ruff", "check", ".")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Types."""
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Generated docs and the outputs in pages hold, and their site is built; `-- renew` writes them first."""
    if "renew" in session.posargs:
        session.run("python", "docs/generate.py")
    session.run("python", "docs/generate.py", "--check")
    session.run("mkdocs", "build", "--strict")


@nox.session
def compat(session: nox.Session) -> None:
    """Tests with other versions of what stands beside, each in an environment of its own: docs/compatibility.md."""
    session.run("python", "-m", "benchmarks.robustness.compat", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """Tests that need a GPU; without one each is skipped with the reason."""
    session.run("python", "-m", "pytest", "-m", "gpu", *session.posargs)


@nox.session
def gpu_kit(session: nox.Session) -> None:
    """The kit that measures a GPU, on a CPU with tiny models, which takes half an hour; `-- 1` is its first call."""
    for call in session.posargs or ("1", "2", "3", "4"):
        session.run("bash", "benchmarks/gpu/call.sh", call, env={"TINY": "1", "PYTHON": "python"}, external=True)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """A minute of each benchmark that needs neither a GPU nor files of others; `benchmarks/README.md` says more."""
    for script in BENCHMARKS:
        session.run("python", *script)


BENCHMARKS = (
    ("-m", "benchmarks.accuracy", "--subset", "ci"),
    ("-m", "benchmarks.pairs", "--subset", "ci", "--others", "1"),
    ("benchmarks/calibration.py",),
    ("benchmarks/ranks_confusion.py", "--seeds", "1", "--healthy-seeds", "1"),
    ("benchmarks/series.py", "--seeds", "5"),
    ("-m", "benchmarks.fitting.memory"),
    ("-m", "benchmarks.fitting.breadth", "--types", "llama,mixtral,modernbert"),
    ("-m", "benchmarks.speed.recording", "--rounds", "5"),
    ("benchmarks/armed.py", "--rounds", "20", "--minutes", "0.5"),
    ("-m", "benchmarks.speed.capture_size", "--budgets", "16"),
    ("-m", "benchmarks.speed.load", "--size", "100M"),
    ("-m", "benchmarks.speed.stages", "--size", "100M"),
    ("-m", "benchmarks.speed.ranks", "--ranks", "8,64"),
    ("-m", "benchmarks.speed.fleet", "--jobs", "200"),
    ("-m", "benchmarks.speed.snapshots", "--mb", "20"),
    ("benchmarks/fuzz.py", "--tries", "1000", "--jobs", "2"),
    ("-m", "benchmarks.robustness.killing", "--only", "ledger", "baseline save"),
    ("-m", "benchmarks.robustness.mutation"),
)
