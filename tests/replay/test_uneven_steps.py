"""Steps of which some alone wait or work: the replayed ones stand for all."""

import pytest
from kineto import Trace
from replay.replayed import US, gemms, replay

from diagnose.predict.replay import StepChange
from diagnose.predict.replay import replay as replay_module


def test_what_happens_in_some_steps_alone_is_replayed_with_all_of_them() -> None:
    job = Trace()
    for number in range(8):
        with job.step():
            if number % 4 == 1:
                job.loader(us=6_000)
            gemms(job, 10, gpu_us=400, host_us=1)
            job.sync()

    found = replay(job)

    assert len(found.steps) == 7
    assert found.strict_error < 0.01
    assert found.measured_ns > 1.3 * 4_000 * US
    assert found.step_ns(StepChange(host={"data-wait": 0.0})) == pytest.approx(4_000 * US, rel=0.02)


def test_few_large_steps_that_differ_predict_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "MOST_ACTIVITIES", 12)
    job = Trace()
    for number in range(8):
        with job.step():
            gemms(job, 10, gpu_us=4_000 if number % 4 == 1 else 400, host_us=1)

    assert replay(job).because == replay_module.NOT_ALIKE


def test_one_long_step_that_the_host_runs_up_to_is_no_sign_of_another_process() -> None:
    job = Trace()
    for number in range(8):
        with job.step():
            if number == 3:
                job.loader(us=60_000)
            gemms(job, 10, gpu_us=400, host_us=1)

    found = replay(job)

    assert found.strict_error > replay_module.STRICT_ERROR_LIMIT
    assert found.because == replay_module.NOT_ALIKE
