"""What importing costs: a name here is a promise to training jobs and to impatient terminals."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"click", "msgspec", "numpy", "pandas", "rich", "torch"}
ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "sample_traces" / "cpu-slow-loader.json.gz"
METRICS = ROOT / "diagnose" / "metrics"
NOT_FOR_A_PLAIN_TRACE = {
    "concurrent.futures", "diagnose.analysis.workers", "diagnose.judge.capacity", "diagnose.commands.fit",
    "diagnose.report.text", "diagnose.series.sources", "diagnose.trace.exported", "diagnose.trace.nsight.database",
    "diagnose.trace.processes", "diagnose.trace.torch_trace", "importlib.metadata", "jinja2", "logging", "pandas",
    "psutil", "rich", "sqlite3", "subprocess", "torch", "zipfile",
}  # fmt: skip
NOT_FOR_A_KEPT_ANSWER = {
    "diagnose.analysis.job", "diagnose.judge.judge", "diagnose.metrics.registry", "diagnose.predict", "diagnose.ranks",
    "diagnose.rule.loading", "diagnose.timeline", "diagnose.trace.cache", "diagnose.trace.reader", "numpy",
}  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """The heavy packages that a fresh interpreter holds after `statement`."""
    script = f"import sys\n{statement}\nprint(*sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_imports_nothing() -> None:
    assert loaded_by("import diagnose") == set()


def test_the_probes_import_nothing_of_the_analysis_and_leave_torch_to_the_job() -> None:
    assert loaded_by("import diagnose.probes") == set()


def test_help_loads_only_click() -> None:
    asked = "import contextlib\nfrom diagnose.cli import main\nwith contextlib.suppress(SystemExit): main(['--help'])"

    assert loaded_by(asked) == {"click"}


def test_a_report_needs_no_arrays() -> None:
    assert not loaded_by("import diagnose.report.text") & {"numpy", "pandas", "torch"}


def modules_after(*analyze: str, cache: Path) -> set[str]:
    """What a fresh interpreter holds after `diagnose analyze` with these words."""
    script = """
import contextlib, io, sys
from diagnose.analysis import cached
from diagnose.cli import main
cached.LEAST_BYTES, cached.SETTLED_AFTER_NS = 0, -(10**9)
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
    main(["analyze", *sys.argv[1:]])
print(*sys.modules)
"""
    environment = {**os.environ, "DIAGNOSE_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", script, *analyze]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return set(done.stdout.split())


def test_a_small_trace_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    trace = shutil.copy(SAMPLE, tmp_path)
    modules_after(trace, "--json", cache=tmp_path / "cache")
    loaded = modules_after(trace, "--rank", "0", "--json", cache=tmp_path / "cache")

    assert loaded >= {"numpy", "diagnose.trace.reader", "diagnose.judge.judge"}
    assert not loaded & NOT_FOR_A_PLAIN_TRACE


@pytest.mark.parametrize(("form", "beside"), [("--json", {"rich"}), ("--details", set[str]())])
def test_an_answer_that_is_kept_needs_neither_arrays_nor_a_judge(form: str, beside: set[str], tmp_path: Path) -> None:
    trace = shutil.copy(SAMPLE, tmp_path)
    modules_after(trace, "--json", cache=tmp_path / "cache")
    loaded = modules_after(trace, form, cache=tmp_path / "cache")

    assert "diagnose.diagnosis.reading" in loaded
    assert not loaded & (NOT_FOR_A_KEPT_ANSWER | beside)


def test_a_schema_imports_the_answer_of_its_command_alone() -> None:
    asked = """
import contextlib, io, sys
from diagnose.cli import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main(["schema", "--of", "hang"])
print(*(name for name in sys.modules if name.startswith("diagnose.commands.")))
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert {name.split(".")[2] for name in done.stdout.split()} == {"schema", "hang"}


def test_every_metric_is_registered_on_first_use() -> None:
    asked = "from diagnose.metrics import units\nprint(*units())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    written = {
        node.name
        for path in METRICS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and any("metric(" in ast.unparse(each) for each in node.decorator_list)
    }

    assert set(done.stdout.split()) >= written >= {"trains"}


def test_an_analysis_in_a_notebook_keeps_nothing_from_the_collector() -> None:
    asked = f"""
import gc
from diagnose import analysis
analysis.analyze({str(SAMPLE)!r})
print(gc.isenabled(), gc.get_freeze_count())
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "0"]


def test_what_a_command_imports_is_kept_from_the_collector_once() -> None:
    asked = """
import gc
from diagnose.cli import main
main.get_command(None, "rules")
frozen = gc.get_freeze_count()
made_since = [[] for _ in range(9)]
main.get_command(None, "rules")
print(gc.isenabled(), frozen > 1000, gc.get_freeze_count() == frozen)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "True", "True"]


def test_numpy_starts_no_threads_in_a_command_and_a_job_of_it_has_the_environment_as_it_was() -> None:
    asked = """
import os
from diagnose.analysis.late import imported
imported("diagnose.arrays", of_command=True)
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    plain = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    own = plain | {"OPENBLAS_NUM_THREADS": "2"}
    done = [
        subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=each).stdout
        for each in (plain, own)
    ]

    assert [each.split() for each in done] == [["1", "None"], ["2", "2"]]


def test_a_module_that_another_thread_imports_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "takes_long.py").write_text("import time\nbegun = True\ntime.sleep(0.3)\ndone = True\n")
    asked = """
import sys, threading
from diagnose.analysis.late import imported
other = threading.Thread(target=imported, args=("takes_long",))
other.start()
while not hasattr(sys.modules.get("takes_long"), "begun"): pass
print(imported("takes_long").done)
"""
    command = [sys.executable, "-c", asked]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)

    assert done.stdout == "True\n"
