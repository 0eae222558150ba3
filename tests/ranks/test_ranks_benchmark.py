"""benchmarks/speed/ranks.py: its options, the fit of how CPU time grows, and whether Dask says the same."""

from dataclasses import replace

from speed.ranks import Measurement, fitted, report, same_answer, stated


def job(ranks: int, steps: int, cpu_s: float) -> Measurement:
    return Measurement(
        ranks=ranks, steps=steps, how="", megabytes=1.0, events=1000 * ranks * steps, wall_s=1.0, cpu_s=cpu_s,
        peak_mib=1.0, named="nobody", answer="a",
    )  # fmt: skip


def test_ranks_are_sorted() -> None:
    options = stated(["--ranks", "64,8,1024", "--steps", "6,3"])

    assert (options.ranks, options.steps) == ([8, 64, 1024], [3, 6])
    assert (stated([]).ranks, stated([]).steps) == ([8, 64, 1024], [4])


def test_the_fit_finds_what_start_ranks_and_events_take() -> None:
    jobs = [job(n, steps, 2 + 0.01 * n + n * steps / 1000 * 3) for n in (8, 64, 512) for steps in (3, 6)]

    text = fitted(jobs)

    assert "CPU time is 2.00 s + 10.00 ms for each rank + 3.00 s for each million events" in text
    assert "within 0 %" in text


def test_a_term_in_the_square_of_the_ranks_is_found() -> None:
    jobs = [job(n, 3, 2 + 1e-5 * n**2) for n in (8, 64, 512, 1024)]

    share = float(fitted(jobs).splitlines()[-1].split(" %")[0])

    assert share > 80


def test_few_jobs_are_not_fitted() -> None:
    assert fitted([job(8, 4, 1.0), job(64, 4, 2.0)]) == "Too few jobs to fit how CPU time grows."


def test_the_report_says_whether_the_workers_of_dask_say_the_same() -> None:
    here = job(8, 3, 1.0)
    same, other = replace(here, how=" (Dask)"), replace(here, how=" (Dask)", answer="b")

    assert (same_answer([here, same]), same_answer([here, other]), same_answer([here])) == (True, False, True)
    assert "The workers of Dask say the same, byte for byte." in report([here, same])
    assert "say **something else**" in report([here, other])
