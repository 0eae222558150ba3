"""What goes before the rest of a step on a CPU takes the coldness of its caches with it, in the best case."""

import pytest
from whatif.predicted import loading, predictor, rule, steps

from diagnose.predict.whatif import COLD, Predictor

GONE = "host = { data-wait = [0.0, 0.0] }"


def waiting(wait_ms: int, work_us: int) -> Predictor:
    """Six steps that wait for data, and then compute."""

    def step(job: object) -> None:
        job.loader(ms=wait_ms)  # type: ignore[attr-defined]
        job.cpu_op("aten::mm", work_us)  # type: ignore[attr-defined]

    return predictor(steps(step, 6, gpu=None))


@pytest.mark.parametrize(
    ("wait_ms", "work_us", "left_us"),
    [(8, 4000, 3000), (8, 1000, 400), (2, 4000, 3500), (40, 40_000, 40_000)],
    ids=["a millisecond", "60 % of the rest", "a quarter of what goes", "too little to count"],
)
def test_the_best_case_counts_caches_that_are_warm(wait_ms: int, work_us: int, left_us: int) -> None:
    warms, job = rule("warms = true\n" + GONE), waiting(wait_ms, work_us)
    low, high = job.predict(warms) or (0, 0)

    assert low <= (1e3 * wait_ms + work_us) / work_us
    assert high == pytest.approx((1e3 * wait_ms + work_us) / left_us, rel=0.02)
    assert (COLD in job.assumes(warms)) is (left_us < work_us)


def test_it_counts_only_where_the_rule_says_that_what_goes_stands_before_the_rest() -> None:
    assert waiting(8, 4000).predict(rule(GONE)) == pytest.approx((3, 3), rel=0.03)


def test_beside_a_gpu_nothing_of_it_counts() -> None:
    marked, plain = rule("warms = true\n" + GONE), rule(GONE)
    job = predictor(loading(8, 1, 6))

    assert job.predict(marked) == job.predict(plain)
    assert COLD not in job.assumes(marked)


def test_an_end_that_a_replay_resolves_stays_one() -> None:
    marked, job = rule("warms = true\n" + GONE), waiting(40, 1000)

    assert (job.predict(marked) or (0, None))[1] == pytest.approx(41, rel=0.02)
    assert COLD not in job.assumes(marked)
