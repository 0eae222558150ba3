"""A made-up training framework, and the four files (and a test) by which a copy of the project gets to know it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import diagnose
from diagnose.rule.folder import builtin_rules

ROOT = Path(__file__).parents[2]
FRAMEWORK = """
import torch

class Trainer:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, steps):
        for _ in range(steps):
            self.step()

    def step(self):
        self.model(torch.ones(2, 4)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
"""
JOB = "import torch\nfrom made_up.trainer import Trainer\nTrainer(torch.nn.Linear(4, 4)).fit(60)\n"

ROW = """MADE_UP = Framework(
    "Made-up",
    "made_up",
    packages=("made_up",),
    hooks={"made_up.trainer": "trainers.made_up_trainer"},
    modules=("made_up.trainer",),
    ranges=r"MadeUp\\\\.",
    targets=(
        Target("made_up_trainer", "made_up.Trainer(..., {})", "of the made-up Trainer"),
        Target("made_up_ddp", "made_up.Trainer(..., ddp=dict({}))", "of its ddp"),
    ),
    wrapper="made_up_ddp",
)

"""
HOOKS = '''"""Hooks into the made-up Trainer."""

import sys

from ..current_session import session
from ..frameworks import MADE_UP
from ..guard import guarded
from ..hand_over import replace
from . import training_loop


def install():
    """Hook the Trainers of this process; without a session, do nothing."""
    if session() is not None:
        guarded(_install, "no hooks in the made-up Trainer")


def _install():
    trainer = sys.modules["made_up.trainer"].Trainer
    training_loop.watch(trainer, {})
    replace(trainer, "fit", _fitting, "no capture")
    replace(trainer, "step", _stepping, "no steps")


def _fitting(fit, trainer, *args, **kwargs):
    current = session()
    if current is not None:
        guarded(lambda: _begin(current, trainer), "no capture")
    return training_loop.ending_the_window(fit, trainer, *args, **kwargs)


def _begin(current, trainer):
    training_loop.begins(
        current,
        MADE_UP,
        model=trainer.model,
        optimizer=trainer.optimizer,
        loader=None,
        settings=lambda: {"bf16": False},
        steps=None,
    )


def _stepping(step, trainer, *args, **kwargs):
    result = step(trainer, *args, **kwargs)
    training_loop.step_ended(session())
    return result
'''
FILES = {  # what is written before which text; a file without one is new
    "diagnose/probes/frameworks.py": {"FRAMEWORKS = (": ROW, "TRAINER, LIGHTNING, ACCELERATE": "MADE_UP, "},
    "diagnose/probes/trainers/made_up_trainer.py": {"": HOOKS},
    "diagnose/data/settings.toml": {
        "\n[fp16]\n": 'made_up = { target = "made_up_trainer", key = "bits", value = "bf16" }\n',
    },
    "docs/capture.md": {
        "| any other | with": "| Made-up | with `Trainer.step()` |\n",
        "| any other loop | steps": "| Made-up | in the order of its steps |\n",
        "`lightning_trainer` or": "`made_up_trainer`, ",
        "`ddp_strategy`, `accelerate_ddp` |": "`made_up_ddp`, ",
        "(`deepspeed.runtime.engine`,": "(`made_up.trainer`) ",
    },
    "tests/capture/test_made_up.py": {"": 'assert record["training_loop"] == "Made-up"\n'},
}


def copied(folder: Path) -> Path:
    """The parts of the project that a framework is in, and the made-up one as a package beside them."""
    shutil.copytree(Path(diagnose.__file__).parent, folder / "diagnose", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(builtin_rules(), folder / "diagnose" / "rules", dirs_exist_ok=True)
    of_others = [path for path in (ROOT / "tests" / "capture").glob("test_*.py") if "made_up" not in path.name]
    tests = [*of_others, ROOT / "tests" / "test_frameworks.py"]
    for path in (*tests, ROOT / "docs" / "capture.md"):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (folder / "made_up").mkdir()
    (folder / "made_up" / "__init__.py").touch()
    (folder / "made_up" / "trainer.py").write_text(FRAMEWORK)
    return folder


def add(folder: Path, name: str) -> str | None:
    """Add the made-up framework to one file; its text before, None if it is new."""
    path = folder / name
    before = path.read_text("utf-8") if path.exists() else None
    text = before or ""
    for place, added in FILES[name].items():
        assert place in text, place
        text = text.replace(place, added + place, 1)
    path.write_text(text, "utf-8")
    return before


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A process in the folder, whose `diagnose` is the copy."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    env["PYTHONPATH"] = os.pathsep.join((str(folder), str(ROOT / "tests")))
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)
