"""Python that is at lines of the user's own can leave the step; that of the training library cannot."""

import math
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


def test_the_promise_is_of_the_users_own_python_and_at_best_of_as_much_as_the_samples_allow(tmp_path: Path) -> None:
    """20 of 200 samples are 10 % of the step, or 14.3 % with two standard errors; what is left of it then no longer
    begins with cold caches, which takes a quarter of what goes.
    """
    answer = waiting(tmp_path, TRAINS, ("log", "step", None, 20), ("collate", "loading", None, 80))
    facts = {fact.name: fact.value for fact in answer.facts}
    most = 0.1 + 2 * math.sqrt(22 / 204 * 182 / 204 / 204)

    assert facts["most_own_python_share"] == pytest.approx(most / 0.4, abs=0.01)
    assert finding(answer, "python-host").predicted_speedup == pytest.approx(
        (10 / (10 - 0.6 * 1), 1 / (1 - 1.25 * most)), rel=0.01
    )


def test_recorded_calls_of_the_user_are_no_sample(tmp_path: Path) -> None:
    facts = {fact.name: fact.value for fact in waiting(tmp_path).facts}

    assert facts["most_own_python_share"] == facts["own_python_share"]


def test_a_librarys_python_is_not_the_users_to_move(tmp_path: Path) -> None:
    found = waiting(tmp_path, TRAINS, ("7 > main", "step", "train", 100))

    assert "python-host" not in {each.rule for each in found.findings}
    assert any("none of the Python outside of operators is at your own lines" in n.because for n in found.not_advised)


def test_where_nothing_was_sampled_all_of_it_may_be(tmp_path: Path) -> None:
    promised = (1 / 0.92, 1 / (0.6 - 0.1))  # of 10 ms; the rest takes a millisecond less behind no Python
    assert finding(waiting(tmp_path), "python-host").predicted_speedup == pytest.approx(promised, rel=0.01)
