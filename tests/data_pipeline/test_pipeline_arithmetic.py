"""From measured times to rates, the smallest stage, the lock and the workers that a step needs."""

from typing import Any

import msgspec
import pytest
from data_pipeline.jobs import stage
from data_pipeline.measurements import MS, made, rounds, spent

from diagnose.commands.data.judge import lock_of, report_of
from diagnose.commands.data.measured import decoded
from diagnose.commands.data.question import LoaderQuestion
from diagnose.errors import UserError


def moved(samples: float, size: int, ms: float) -> dict[str, Any]:
    return {"samples": samples, "bytes": size, "wall_ns": int(ms * MS)}


def beside(wall: int, loading: int, other: int) -> dict[str, int]:
    return {"wall_ns": wall, "loading_ns": loading, "beside_ns": other}


def test_a_rate_is_samples_over_time_and_bytes_over_time() -> None:
    said = report_of(made(), LoaderQuestion())

    assert stage(said, "dataset").samples_per_s == pytest.approx(100)
    assert stage(said, "dataset").bytes_per_s == pytest.approx(100_000)
    assert stage(said, "collate").samples_per_s == pytest.approx(10_000)
    assert said.loader[0].samples_per_s == pytest.approx(50 / 0.505)
    assert said.loader[1].samples_per_s == pytest.approx(100)


def test_the_error_of_a_rate_is_that_of_the_mean_batch_and_unknown_of_one() -> None:
    uneven = report_of(made(fetch=spent(40, [90.0, 110.0, 90.0, 110.0])), LoaderQuestion())
    single = report_of(made(fetch=spent(10, [100.0])), LoaderQuestion())

    assert stage(uneven, "dataset").spread == pytest.approx(0.0577, abs=1e-4)  # 11.5 ms / sqrt(4) / 100 ms
    assert stage(single, "dataset").spread is None


def test_workers_do_their_stages_at_once_as_far_as_there_are_cores() -> None:
    with_workers = {"loader": {"num_workers": 4}, "hand_over": rounds(4, 30, 1000.0)}
    said = report_of(made(**with_workers), LoaderQuestion())
    crowded = report_of(made(**with_workers, cores={"usable": 2, "local_ranks": 1}), LoaderQuestion())

    assert stage(said, "dataset").in_job_samples_per_s == pytest.approx(400)
    assert stage(crowded, "dataset").in_job_samples_per_s == pytest.approx(200)
    assert (said.smallest, crowded.smallest) == ("hand-over", "dataset")  # 300 samples/s are handed over


def test_without_workers_nothing_is_handed_over_in_the_job() -> None:
    assert report_of(made(hand_over=rounds(1, 1, 1000.0)), LoaderQuestion()).smallest == "dataset"


@pytest.mark.parametrize(("busy", "bound"), [(0.95, "cpu"), (0.1, "io"), (0.5, "both")])
def test_cpu_time_over_wall_time_says_what_bounds_a_stage(busy: float, bound: str) -> None:
    said = report_of(made(fetch=spent(50, [100.0] * 5, busy)), LoaderQuestion())

    assert stage(said, "dataset").bound == bound


def test_a_wait_for_a_core_is_no_wait_for_a_disk() -> None:
    said = report_of(made(fetch=spent(50, [100.0] * 5, 0.3, queued_ns=350 * MS)), LoaderQuestion())

    assert stage(said, "dataset").bound == "core"
    assert said.notes[0].startswith("the host is busy: for 69 % of the time")


def test_threads_that_take_turns_are_bound_by_the_lock() -> None:
    loading = {"wall_ns": 100, "cpu_ns": 10, "together_cpu_ns": 100, "process_cpu_ns": 100, "busy": 4.0}
    said = report_of(made(loading=loading), LoaderQuestion())

    assert stage(said, "dataset").bound == "gil"
    assert "GIL-bound" in said.smallest_because


def test_a_dataset_that_waits_for_its_files_is_limited_by_the_storage() -> None:
    files = {
        "files": 9,
        "order": "whole files",
        "cold": moved(150, 15_000, 1000.0),
        "warm": moved(9000, 900_000, 1000.0),
    }
    said = report_of(made(fetch=spent(50, [100.0] * 5, 0.1), storage=files), LoaderQuestion())
    computing = report_of(made(storage=files), LoaderQuestion())

    assert (said.smallest, computing.smallest) == ("storage, cold", "dataset")
    assert stage(said, "storage, cold").bytes_per_s == pytest.approx(15_000)


@pytest.mark.parametrize(
    ("in_python", "without_lock", "held"),
    [((50, 50), (99, 99), "held"), ((99, 99), (99, 99), "free"), ((75, 80), (99, 99), "partly")],
)
def test_a_thread_in_python_says_whether_the_lock_is_held(
    in_python: tuple[int, int], without_lock: tuple[int, int], held: str
) -> None:
    lock = {"in_python": beside(100, *in_python), "without_lock": beside(100, *without_lock)}

    assert lock_of(made(lock=lock), 1.0) == (held, "")


def test_the_lock_is_unknown_without_a_second_core_and_where_loading_waits() -> None:
    lock = {"in_python": beside(100, 50, 50), "without_lock": beside(100, 60, 50)}

    assert lock_of(made(lock=lock), 1.0) == ("unknown", "no second core was free to try it")
    assert lock_of(made(lock=lock), 0.1)[0] == "unknown"


def test_a_step_needs_as_many_workers_as_share_its_batch_in_time() -> None:
    """A batch takes a worker 100 ms; a step of 30 ms needs four, and six where each loses 30 % to the others."""
    needed = report_of(made(), LoaderQuestion(0.030, "--step-ms")).workers

    assert (needed.least, needed.most, needed.room) == (4, 5, 7)


def test_a_step_of_several_batches_needs_more_and_the_user_goes_before_the_trainer() -> None:
    trainer = report_of(made(batches_per_step=3), LoaderQuestion(0.3)).workers
    user = report_of(made(batches_per_step=3), LoaderQuestion(0.3, "", 6)).workers

    assert (trainer.least, user.least) == (1, 2)


def test_measured_workers_that_hinder_each_other_raise_the_most() -> None:
    slow = [rounds(1, 10, 1000.0), rounds(4, 20, 1000.0)]  # four bring twice the rate of one
    needed = report_of(made(workers=slow), LoaderQuestion(0.030)).workers

    assert (needed.least, needed.most) == (4, 7)


def test_without_a_step_it_says_what_each_number_of_workers_keeps_up_with() -> None:
    needed = report_of(made(), LoaderQuestion()).workers

    assert needed.least is None
    assert "--step-ms" in needed.because
    assert {each.workers: each.step_ms[0] for each in needed.feeds} == {1: 100.0, 2: 50.0, 4: 25.0}


def test_cores_that_feed_no_worker_beside_training_keep_up_with_one_that_takes_turns() -> None:
    needed = report_of(made(cores={"usable": 1, "local_ranks": 1}), LoaderQuestion()).workers

    assert needed.room == 0
    assert [each.workers for each in needed.feeds] == [1]


def test_workers_that_lose_more_by_handing_over_than_they_load_are_told_of_the_rate_without_them() -> None:
    over = rounds(2, 4, 1000.0)  # 40 samples/s
    loader = {"loader": {"num_workers": 2}, "hand_over": over}
    slower = report_of(made(**loader, workers=[rounds(1, 10, 1000.0), over]), LoaderQuestion())
    faster = report_of(made(**loader, workers=[rounds(1, 10, 1000.0), rounds(2, 18, 1000.0)]), LoaderQuestion())

    assert slower.smallest == faster.smallest == "hand-over"
    assert slower.smallest_because.endswith("without workers the loader gives 99.0 samples/s, with them 40.0")
    assert faster.smallest_because == ""


def test_probes_of_another_version_are_refused() -> None:
    content = msgspec.json.encode(made())
    with pytest.raises(UserError, match="probes of version 9"):
        decoded(content.replace(b'"version":1', b'"version":9'))
    with pytest.raises(UserError, match="cannot be read"):
        decoded(content.replace(b'"batch_size":10', b'"batch_size":-1'))


@pytest.mark.parametrize("cores", [{"usable": 0}, {"usable": 8, "shared": 0}, {"usable": 8, "quota": 0}])
def test_an_answer_of_no_cores_says_nothing_of_them(cores: dict[str, int]) -> None:
    said = report_of(made(cores={"local_ranks": 1, **cores}), LoaderQuestion())

    assert stage(said, "dataset").in_job_samples_per_s == pytest.approx(100)
