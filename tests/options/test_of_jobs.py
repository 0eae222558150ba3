"""Options of commands that start a job, each given to a real one: what it does, and that the job stays what it is."""

from pathlib import Path

import pytest
from needs import needs
from options.inputs import Inputs
from options.jobs import Effect, Job, Jobs, as_without_us
from options.rows import called
from options.tables import EFFECTS, JOBS

needs("torch", "transformers")
pytestmark = pytest.mark.capture
ALIKE = [name for name, job in JOBS.items() if job.line and job.alike]


@pytest.mark.parametrize(
    "effect",
    [pytest.param(each, id=f"{each.command} {each.option}", marks=[pytest.mark.slow] * each.slow) for each in EFFECTS],
)
def test_the_option_has_its_effect_and_a_job_without_it_has_not(effect: Effect, jobs: Jobs) -> None:
    effect.check(jobs(effect.job))
    with pytest.raises((AssertionError, LookupError)):
        effect.check(jobs(effect.beside))


@pytest.mark.parametrize("name", ALIKE)
def test_the_job_ends_and_prints_as_without_us(name: str, jobs: Jobs) -> None:
    job, seen = JOBS[name], jobs(name)
    code, stdout, stderr = as_without_us(job, seen)
    plain = as_without_us(job, jobs(plain_of(job)))

    assert (code, stdout) == plain[:2], seen.stderr
    if job.report:
        assert set(plain[2]) <= set(stderr)
    else:
        assert stderr == plain[2]


@pytest.mark.parametrize("given", ["--rank 0", "--step 0", "--tables t", "--rules nowhere"])
def test_of_an_armed_run_an_option_of_one_window_is_refused_or_has_its_effect(
    given: str, inputs: Inputs, tmp_path: Path
) -> None:
    without = called("analyze {armed}", inputs, {}, tmp_path)
    with_it = called(f"analyze {given} {{armed}}", inputs, {}, tmp_path)

    has_effect = with_it.stdout != without.stdout or (tmp_path / "t").exists()
    assert with_it.code in (2, 3) or (has_effect and "nowhere" not in given)


def plain_of(job: Job) -> str:
    """The name of the same job without us."""
    return next(name for name, other in JOBS.items() if not other.line and other.job == job.job)
