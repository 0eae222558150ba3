"""Python that is at lines of the user's own can leave the step; that of the training library cannot."""

from pathlib import Path

import pytest
from kineto import Trace
from lines.lines_jobs import Sampled, finding, recorded, samples

from diagnose.diagnosis import Diagnosis

TRAINS = ("7 > main", "backward", "train", 100)  # the line that calls trainer.train()


def waiting(folder: Path, *sampled: Sampled, **more: object) -> Diagnosis:
    """Steps of 10 ms, of which 4 are Python, in a job of these samples."""
    job = Trace(gpu=None)
    for _ in range(5):
        with job.step():
            for _ in range(4):
                job.cpu_op("aten::mm", 1500)
                job.host(1000)
    return recorded(folder, [job], {"stack_samples": samples(*sampled) | more} if sampled else {})


@pytest.mark.parametrize(
    ("sampled", "share"),
    [
        ([TRAINS, ("log", "step", None, 100)], 1.0),
        ([TRAINS, ("log", "step", None, 20), ("collate", "loading", None, 80)], 0.25),
        ([TRAINS, ("7 > main", "step", "train", 80), ("log", "step", None, 20)], 0.25),
        ([TRAINS, ("7 > main", "step", "train", 100)], 0.0),
    ],
    ids=["all of it", "loading is the loader's", "a part is the trainer's", "the trainer's alone"],
)
def test_what_is_at_lines_of_the_user(sampled: list[Sampled], share: float, tmp_path: Path) -> None:
    facts = {fact.name: fact.value for fact in waiting(tmp_path, *sampled).facts}

    assert facts["own_python_share"] == pytest.approx(share, abs=0.01)


def test_the_promise_is_of_the_users_own_python(tmp_path: Path) -> None:
    found = finding(
        waiting(tmp_path, TRAINS, ("log", "step", None, 20), ("collate", "loading", None, 80)), "python-host"
    )

    assert found.predicted_speedup == pytest.approx((10 / (10 - 0.6 * 1), 10 / (10 - 1)), rel=0.01)


def test_a_librarys_python_is_not_the_users_to_move(tmp_path: Path) -> None:
    found = waiting(tmp_path, TRAINS, ("7 > main", "step", "train", 100))

    assert "python-host" not in {each.rule for each in found.findings}
    assert any("none of the Python outside of operators is at your own lines" in n.because for n in found.not_advised)


def test_where_nothing_was_sampled_all_of_it_may_be(tmp_path: Path) -> None:
    promised = (1 / 0.92, 1 / 0.6)
    assert finding(waiting(tmp_path), "python-host").predicted_speedup == pytest.approx(promised, rel=0.01)
