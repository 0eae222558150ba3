"""Judge a snapshot that a test has made; frames of models and loops that their stacks consist of."""

import pickle
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from torch_allocator import TORCH, frame

from diagnose.cli import main
from diagnose.commands.memory.answer import MemoryAnswer
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import read

PACKAGES = "/opt/env/lib/python3.11/site-packages/"
TRAINER, LLAMA = PACKAGES + "transformers/trainer.py", PACKAGES + "transformers/models/llama/modeling_llama.py"
CALL = frame(TORCH + "nn/modules/module.py", 1789, "_call_impl")
LINEAR = frame(TORCH + "nn/modules/linear.py", 134, "forward")
TOP = [CALL, frame(LLAMA, 460, "forward"), CALL]
LAYER = [CALL, frame(LLAMA, 400, "forward"), *TOP]
USERS = [frame("/home/me/train.py", 31, "main"), frame("/home/me/train.py", 90, "<module>")]
BY_TRAINER = [
    frame(TRAINER, 3278, "prediction_step"), frame(TRAINER, 2988, "evaluation_loop"), frame(TRAINER, 2860, "evaluate"),
    frame("/home/me/train.py", 50, "<module>"),
]  # fmt: skip
BY_LOOP = [frame("/home/me/train.py", 44, "evaluate"), frame("/home/me/train.py", 50, "<module>")]
UNNAMED = [frame("/home/me/train.py", 52, "main"), frame("/home/me/train.py", 90, "<module>")]
LOGITS = [LINEAR, CALL, frame(LLAMA, 468, "forward"), CALL]
HIDDEN = [frame(LLAMA, 306, "forward"), CALL, frame(LLAMA, 400, "forward"), *TOP]


def judge(tmp_path: Path, snapshot: dict[str, Any]) -> MemoryAnswer:
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(snapshot, protocol=4))
    return judged(read(tmp_path / "snapshot.pickle"))


def names(of: MemoryAnswer) -> list[str]:
    return [finding.name for finding in of.findings]


def told(tmp_path: Path) -> str:
    """The report of the snapshot that was judged last, in a terminal of 80 columns."""
    done = CliRunner().invoke(main, ["memory", str(tmp_path / "snapshot.pickle")], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 80
    return " ".join(done.output.split())
