"""A trainer is added in four files and a test: it then goes by its name, and none of them can be forgotten."""

import json
import subprocess
from pathlib import Path

import pytest
from capture.made_up_trainer import FILES, JOB, add, copied, python

ASKED = """
import json
from diagnose.analysis import analyze
from diagnose.diagnosis import Patch
from diagnose.facts import Fact
from diagnose.patch.patches import python_lines
from diagnose.patch.job_framework import in_short, framework_of
from diagnose.trace.python_frames import is_of_library
from kineto import Trace
job = Trace()
for _ in range(4):
    with job.step():
        job.op("aten::mm", [[512, 512]] * 2, "gemm", 500)
        job.event("python_function", "site-packages/made_up/trainer.py(9): fit", 10)
job.write("traced/rank0.json.gz")
world = framework_of({"training_loop": Fact("training_loop", "Made-up", "text")})
half = world.patch(Patch(target="training_arguments", set={"bf16": True}))
wrapped = world.patch(Patch(target="ddp", set={"static_graph": True}))
print(json.dumps({
    "captured": analyze("out").setup["training_loop"],
    "traced": {fact.name: fact.value for fact in analyze("traced").facts}["training_loop"],
    "typed": [*python_lines(half), *python_lines(wrapped)],
    "in short": in_short(half),
    "library": is_of_library("made_up/trainer.py"),
}))
"""


Project = tuple[Path, dict[str, str | None]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project that knows the made-up framework, and the text before of each file that was changed."""
    folder = copied(tmp_path_factory.mktemp("project"))
    return folder, {name: add(folder, name) for name in FILES}


def completeness(folder: Path, *which: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_frameworks.py", *which)


def test_it_is_recognised_and_told_its_own_words(project: Project) -> None:
    folder, _ = project
    (folder / "job.py").write_text(JOB)
    done = python(folder, "-m", "diagnose", "run", "--out", "out", "--", "job.py")
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "out" / "capture-rank0.json").read_text())
    asked = python(folder, "-c", ASKED)
    assert asked.returncode == 0, asked.stderr

    assert (record["training_loop"], record["steps"]["source"]) == ("Made-up", "trainer")
    assert json.loads(asked.stdout) == {
        "captured": "Made-up",
        "traced": "Made-up",
        "typed": ['made_up.Trainer(..., bits="bf16")', "made_up.Trainer(..., ddp=dict(static_graph=True))"],
        "in short": 'set bits="bf16" of the made-up Trainer',
        "library": True,
    }


def test_with_all_of_them_nothing_is_missing(project: Project) -> None:
    done = completeness(project[0])

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("forgotten", "told"),
    [
        ("diagnose/probes/frameworks.py", "no framework has the key 'made_up'"),
        ("diagnose/probes/trainers/made_up_trainer.py", "test_what_is_hooked_has_a_module_that_installs_it[Made-up]"),
        ("diagnose/data/settings.toml", "test_its_settings_are_spelled_and_go_to_what_takes_them[Made-up]"),
        ("docs/capture.md", "test_the_page_says_when_its_steps_end_and_how_they_are_numbered"),
        ("tests/capture/test_made_up.py", "test_a_real_process_has_run_it[Made-up]"),
    ],
)
def test_none_of_them_can_be_forgotten(project: Project, forgotten: str, told: str) -> None:
    folder, before = project
    path, text = folder / forgotten, before[forgotten]
    path.unlink() if text is None else path.write_text(text, "utf-8")
    done = completeness(folder, "-k", "not no_other_module")
    path.unlink(missing_ok=True)
    path.write_text(text or "", "utf-8")
    add(folder, forgotten)

    assert done.returncode == 1, done.stdout
    assert told in done.stdout
