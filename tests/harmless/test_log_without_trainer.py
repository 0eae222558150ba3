"""`--log` in a job that has no logger of transformers to tell."""

from pathlib import Path

import pytest
from capture.scripts import BARE, TRAINER, run, said

WORDS = [
    "diagnose: --log tells nobody of this loop: it is not that of transformers' Trainer; with --arm a file gets it"
]


@pytest.mark.parametrize(("script", "told"), [(BARE + "loop(30)\n", WORDS), (TRAINER + "trainer().train()\n", [])])
def test_a_loop_without_the_trainer_is_told_that_nothing_is_logged(
    script: str, told: list[str], tmp_path: Path
) -> None:
    done = run(script, tmp_path, {"at_step": 8, "log": True, "sample_steps": 0})

    assert done.returncode == 0, done.stderr
    assert [line for line in said(done) if "--log" in line] == told
