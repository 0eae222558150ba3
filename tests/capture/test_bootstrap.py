"""The sitecustomize that `diagnose run` puts first: who is hooked, who is left alone, what it hides still runs."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnose.capture.command import bootstrap_folder
from diagnose.probes.protocol import CONFIG, MARKS

PROBES = bootstrap_folder().parent
HOOKED = "import sys; print(any(type(f).__name__ == '_AfterImport' for f in sys.meta_path))"
Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Runs Python in a folder where `torch` and the hooks are stand-ins; each hook prints its name when installed.

    The probes are a copy, as they are for an interpreter that has no `diagnose` of ours.
    """
    probes, site = tmp_path / "copy", tmp_path / "site"
    shutil.copytree(PROBES / "bootstrap", probes / "bootstrap")
    for module in ("attach.py", "protocol.py", "frameworks.py"):
        shutil.copy(PROBES / module, probes)
    for package in (probes, probes / "hooks", probes / "trainers"):
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
    for hooks in ("hooks/torch_hooks.py", "trainers/transformers_trainer.py"):
        (probes / hooks).write_text("def install(): print('hooks', __name__)\n")
    (site / "transformers").mkdir(parents=True)
    (site / "torch.py").write_text("print('torch runs')\n")
    (site / "transformers" / "__init__.py").touch()
    (site / "transformers" / "trainer.py").touch()
    (tmp_path / "seen").mkdir()

    def run(*args: str, path: str = "", armed: bool = True) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTHONSAFEPATH"))}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(probes / "bootstrap"), path, str(site)]))
        if armed:
            env |= {CONFIG: "{}", MARKS: str(tmp_path / "seen")}
        return subprocess.run(
            [sys.executable, *args], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


def seen(folder: Path) -> set[str]:
    return {path.name for path in (folder / "seen").iterdir()}


def test_hooks_go_in_after_the_job_imported_the_module_and_only_once(python: Python, tmp_path: Path) -> None:
    done = python("-c", "import torch, transformers.trainer, importlib; importlib.reload(torch)")

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "torch runs",
        "hooks _diagnose_probes.hooks.torch_hooks",
        "hooks _diagnose_probes.trainers.transformers_trainer",
        "torch runs",
    ]
    assert seen(tmp_path) == {"python", "torch", "transformers.trainer"}


def test_the_module_looks_as_it_does_without_us(python: Python) -> None:
    script = "import torch; print(type(torch.__spec__.loader).__name__, vars(torch.__loader__).keys())"

    assert python("-c", script).stdout.splitlines()[-1] == python("-c", script, armed=False).stdout.splitlines()[-1]


def test_a_process_that_never_imports_torch_loads_nothing(python: Python) -> None:
    script = "import sys; print({'torch', 'json', '_diagnose_probes', 'diagnose'} & sys.modules.keys())"

    assert python("-c", script).stdout == "set()\n"


def test_asking_where_torch_is_does_not_hook(python: Python) -> None:
    assert python("-c", "import importlib.util as u; print(u.find_spec('torch').name)").stdout == "torch\n"


@pytest.mark.parametrize("place", ["0", "1", "len(sys.meta_path)"])
def test_a_finder_of_the_jobs_is_asked_as_often_as_without_us(place: str, python: Python) -> None:
    """One that finds nothing before ours, behind ours, and behind all."""
    job = f"""
    import sys
    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name in ("torch", "transformers.trainer"):
                print("asked for", name)
    sys.meta_path.insert({place}, Finder())
    import torch
    import transformers.trainer
    """
    hooked = python("-c", textwrap.dedent(job))

    assert [line for line in hooked.stdout.splitlines() if line.startswith("asked")] == (
        [] if "len" in place else ["asked for torch", "asked for transformers.trainer"]
    )
    assert "hooks" in hooked.stdout, hooked.stderr


def test_without_a_window_nothing_is_hooked(python: Python) -> None:
    assert python("-c", HOOKED, armed=False).stdout == "False\n"


def test_a_torch_that_is_missing_or_broken_fails_as_ever(python: Python, tmp_path: Path) -> None:
    (tmp_path / "site" / "torch.py").write_text("raise OSError('libcudart')\n")
    broken = python("-c", "import torch")
    (tmp_path / "site" / "torch.py").unlink()
    missing = python("-S", "-c", "import torch")

    assert broken.stderr.splitlines()[-1] == "OSError: libcudart"
    assert missing.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torch'"
    assert (broken.returncode, missing.returncode) == (1, 1)


def test_a_hook_that_fails_costs_one_line(python: Python, tmp_path: Path) -> None:
    (tmp_path / "copy" / "hooks" / "torch_hooks.py").write_text("def install(): raise RuntimeError('no\\nhooks')\n")

    done = python("-c", "import torch; print('trained')")

    assert (done.returncode, done.stdout) == (0, "torch runs\ntrained\n")
    assert done.stderr == "diagnose: capture is off: RuntimeError: no hooks\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_children_of_multiprocessing_are_left_alone(python: Python, tmp_path: Path, method: str) -> None:
    (tmp_path / "main.py").write_text(
        textwrap.dedent(f"""
        import multiprocessing
        def work():
            import torch
        if __name__ == "__main__":
            child = multiprocessing.get_context("{method}").Process(target=work)
            child.start()
            child.join()
            print(child.exitcode)
        """)
    )

    done = python("main.py")

    assert (sorted(done.stdout.splitlines()), done.stderr) == (["0", "torch runs"], "")


def test_a_hidden_sitecustomize_runs_once_and_takes_its_name(python: Python, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("print('theirs', __name__, __file__)\nlevel = 3\n")

    done = python("-c", "import sitecustomize; print(sitecustomize.level); import torch", path=str(theirs))

    path = theirs / "sitecustomize.py"
    assert done.stdout.splitlines()[:3] == [f"theirs sitecustomize {path}", "3", "torch runs"]
    assert "torch_hooks" in done.stdout


@pytest.mark.parametrize("body", ["raise RuntimeError('theirs')", "import not_there", "syntax error"])
def test_an_error_in_a_hidden_sitecustomize_is_reported_as_python_does(
    python: Python, tmp_path: Path, body: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text(body)
    alone = {**os.environ, "PYTHONPATH": str(theirs)}
    expected = subprocess.run([sys.executable, "-c", ""], env=alone, capture_output=True, text=True, check=False)

    done = python("-c", HOOKED, path=str(theirs))

    assert (done.stderr, done.returncode) == (expected.stderr, expected.returncode)
    assert done.stdout == "True\n"


def test_the_users_own_modules_keep_their_names(python: Python, tmp_path: Path) -> None:
    for name in ("probes", "rules", "attach", "diagnose", "session"):
        (tmp_path / f"{name}.py").write_text(f"print('my {name}')\n")
    (tmp_path / "train.py").write_text("import torch, probes, rules, attach, diagnose, session\n")

    done = python("train.py")

    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == "torch runs"
    assert done.stdout.splitlines()[2:] == ["my probes", "my rules", "my attach", "my diagnose", "my session"]


def test_our_own_installation_is_used_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()
    script = "import torch, sys; print('diagnose.probes.attach' in sys.modules, '_diagnose_probes' in sys.modules)"
    path = os.pathsep.join([str(bootstrap_folder()), str(tmp_path)])
    env = {**os.environ, "PYTHONPATH": path, CONFIG: "{}"}

    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)

    assert done.stdout == "True False\n"
