"""What importing costs: a name here is a promise to training jobs and to impatient terminals."""

import subprocess
import sys

HEAVY = {"click", "msgspec", "numpy", "pandas", "rich", "torch"}


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
