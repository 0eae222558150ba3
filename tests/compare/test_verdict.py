"""Better, worse, no difference or not comparable, and by what."""

import csv
import gzip
import io
import itertools

import numpy as np
import pytest
from compared_runs import REAL, SAMPLES, log, run, side
from msgspec.structs import replace
from needs import file_beside
from public_tables import public_table

from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.noise import FLOOR_ELSEWHERE, usual_floor
from diagnose.commands.compare.side import Side, SideCause, side_of_log
from diagnose.commands.compare.views import comparison_view, headline
from diagnose.diagnosis import Applied, Patch
from diagnose.judge.run_pair import FLOOR, FLOOR_OF_BRIEF, FLOOR_ON_HOST
from diagnose.series import Series, Track

EVEN = (100.0, 101.0, 99.0, 100.5, 99.5)


def test_a_run_is_better_where_the_interval_excludes_1() -> None:
    found = compare(run(*EVEN), run(*(0.8 * ms for ms in EVEN)))

    assert found.verdict == "better"
    assert found.speedup is not None
    low, mid, high = found.speedup
    assert mid == pytest.approx(1.25)
    assert 1 < low < mid < high


def test_a_run_is_worse_by_the_same_interval() -> None:
    there, back = (compare(*pair) for pair in itertools.permutations((run(*EVEN), run(*(0.8 * ms for ms in EVEN)))))

    assert (there.verdict, back.verdict) == ("better", "worse")
    assert back.speedup is not None
    assert headline(back).startswith("B is 1.25x slower")
    assert f"{1 / back.speedup[2]:.3f}-{1 / back.speedup[0]:.3f}x as slow" in back.because
    assert back.speedup == pytest.approx(tuple(1 / factor for factor in reversed(there.speedup or ())))


def test_no_difference_says_which_one_would_have_shown() -> None:
    found = compare(run(*EVEN), run(*(ms + 0.4 for ms in EVEN)))

    assert found.verdict == "no_difference"
    assert found.detectable_share == pytest.approx(0.022, abs=0.005)
    assert f"{100 * (found.detectable_share or 0):.1f} % or more" in found.because


def test_the_floor_counts_beside_even_steps() -> None:
    even = run(100, 100, 100), run(99, 99, 99)

    assert compare(*even).verdict == "no_difference"
    assert compare(*even, floor_share=0.005).verdict == "better"


def test_steps_without_the_profiler_go_first() -> None:
    before = run(*EVEN, unprofiled_ns=(50, 51, 50, 49))
    after = run(*EVEN, unprofiled_ns=(40, 41, 40, 39))

    found = compare(before, after)

    assert found.before.step == "step without the profiler"
    assert "4 steps without the profiler" in str(comparison_view(found))
    assert found.speedup is not None
    assert found.speedup[1] == pytest.approx(1.25)
    assert found.difference_ns == 0


def test_causes_that_contradict_the_verdict_are_not_its_reason() -> None:
    before = run(*EVEN, unprofiled_ns=(50, 51, 50, 49))
    after = run(*(1.5 * ms for ms in EVEN), unprofiled_ns=(40, 41, 40, 39))

    found = compare(before, after)

    assert found.verdict == "better"
    assert headline(found).endswith("x)")
    assert "do not show the difference" in found.notes[-1]


def test_steps_under_the_profiler_are_not_compared_with_a_log() -> None:
    assert compare(run(*EVEN), log(*EVEN)).verdict == "not_comparable"


def test_two_logs_are_compared_by_their_steps_and_tell_no_causes() -> None:
    found = compare(log(*EVEN), log(*(0.9 * ms for ms in EVEN)))

    assert found.verdict == "better"
    assert found.difference == ()
    assert [part.what for part in found.not_compared] == ["causes", "configuration"]


def test_one_step_of_each_tells_no_noise() -> None:
    found = compare(run(100), run(50))

    assert found.verdict == "not_comparable"
    assert found.speedup is None
    assert "one step of each" in found.because


@pytest.mark.parametrize("sides", [(run(*EVEN), run(130)), (run(130), run(*EVEN))], ids=["after", "before"])
def test_one_step_against_many_tells_no_noise_either(sides: tuple[Side, Side]) -> None:
    found = compare(*sides)

    assert (found.verdict, found.speedup, found.detectable_share) == ("not_comparable", None, None)
    assert f"one step of {'A' if sides[0].counted == 1 else 'B'} does not show" in found.because
    assert "capture more" in found.because


def test_two_steps_that_lie_far_apart_tell_nothing_and_two_even_ones_do() -> None:
    apart, even = compare(run(*EVEN), run(120, 160)), compare(run(*EVEN), run(120, 120.1))

    assert (apart.verdict, apart.speedup) == ("not_comparable", None)
    assert "5 and 2 steps that differ so much" in apart.because
    assert even.verdict == "worse"


@pytest.mark.parametrize(
    ("path", "one", "other", "named"),
    [
        ("model.config.num_hidden_layers", 12, 24, "layers 12 and 24"),
        ("model.parameters", 7e9, 8e9, "parameters 7e+09 and 8e+09"),
        ("model.model_type", "llama", "opt", "model type llama and opt"),
    ],
)
def test_another_model_is_not_comparable(path: str, one: object, other: object, named: str) -> None:
    found = compare(run(*EVEN, setup={path: one}), run(*EVEN, setup={path: other}))

    assert found.verdict == "not_comparable"
    assert named in found.because
    assert found.difference  # both are shown all the same


def test_more_tokens_in_a_step_compare_by_tokens_per_second() -> None:
    before = run(*EVEN, tokens_per_step=1000)
    after = run(*(1.6 * ms for ms in EVEN), tokens_per_step=2000)

    found = compare(before, after)

    assert (found.verdict, found.speedup_of) == ("better", "tokens/s")
    assert found.speedup is not None
    assert found.speedup[1] == pytest.approx(1.25)
    assert found.after_ns == pytest.approx(0.8 * (found.before_ns or 0), rel=1e-6)
    assert ("tokens of a step of a rank", 1000, 2000) in [(c.what, c.before, c.after) for c in found.work]


def test_padding_is_no_work() -> None:
    before = run(*EVEN, tokens_per_step=2000, padding_share=0.5)
    after = run(*(0.5 * ms for ms in EVEN), tokens_per_step=1000, padding_share=0.0)

    found = compare(before, after)

    assert found.speedup_of == "step time"
    assert found.speedup is not None
    assert found.speedup[1] == pytest.approx(2.0)


def test_other_numbers_of_ranks_compare_by_rank() -> None:
    found = compare(run(*EVEN, tokens_per_step=1000, ranks=8), run(*EVEN, tokens_per_step=1000, ranks=16))

    assert (found.verdict, found.speedup_of) == ("no_difference", "tokens/s per GPU")
    assert found.after.tokens_per_s == pytest.approx(2 * (found.before.tokens_per_s or 0))


def test_other_numbers_of_ranks_without_tokens_are_not_comparable() -> None:
    assert compare(run(*EVEN, ranks=8), run(*EVEN, ranks=16)).verdict == "not_comparable"


def test_operators_that_compute_twice_as_much_are_other_work() -> None:
    found = compare(run(*EVEN, flops_per_step=1e12), run(*EVEN, flops_per_step=2e12))

    assert found.verdict == "not_comparable"
    assert "2 times the FLOPs" in found.because


def test_convolutions_on_one_side_alone_are_other_work() -> None:
    convolves = (
        SideCause(cause="conv", class_="compute", ns=10**9),
        SideCause(cause="gemm", class_="compute", ns=10**8),
    )

    assert compare(run(*EVEN), run(*EVEN, causes=convolves)).because.startswith("conv kernels run on one side alone")


def test_repeats_without_a_gpu_and_windows_elsewhere_lie_further_apart() -> None:
    here, there = run(*EVEN, first_step=6, last_step=10), run(*EVEN, first_step=906, last_step=910)

    assert usual_floor(here, here) == FLOOR
    assert usual_floor(here, there) == FLOOR_ELSEWHERE
    assert usual_floor(here, run(*EVEN, first_step=26, last_step=30)) == FLOOR
    assert usual_floor(here, run(*EVEN, step="host step")) == FLOOR_ON_HOST
    assert "drifts over a run" in " ".join(compare(here, there).notes)


def test_a_run_that_waited_for_cores_is_told_so() -> None:
    causes = (SideCause(cause="core-wait", class_="host", ns=40), SideCause(cause="python", class_="host", ns=60))
    notes = compare(replace(run(30, 30.1, 29.9), causes=causes), run(20, 20.1, 19.9)).notes

    assert "A waits 40.0 % of its step for a CPU core: its times are a busy host's" in notes


def on_host(*ms: float) -> Side:
    return run(*ms, step="host step")


def test_without_a_gpu_brief_steps_show_large_differences_alone() -> None:
    """A core that changes its speed for seconds slows all of them."""
    slower, faster = on_host(*EVEN), on_host(*(0.8 * ms for ms in EVEN))

    found = compare(slower, faster)

    assert found.verdict == "no_difference"
    assert found.floor_share == FLOOR_OF_BRIEF
    assert "how cores change their speed" in " ".join(found.notes)
    assert compare(slower, on_host(*(0.5 * ms for ms in EVEN))).verdict == "better"
    assert compare(slower, faster, floor_share=FLOOR_ON_HOST).verdict == "better"


def test_without_a_gpu_stretches_of_a_run_tell_how_far_runs_lie_apart() -> None:
    steady, drifting = EVEN * 20, [ms * factor for factor in (1.0, 1.1, 0.95, 1.08, 1.03) for ms in EVEN * 4]

    assert compare(on_host(*steady), on_host(*(0.85 * ms for ms in steady))).verdict == "better"
    assert compare(on_host(*drifting), on_host(*(0.85 * ms for ms in drifting))).verdict == "no_difference"
    assert compare(run(*drifting), run(*drifting)).verdict == "no_difference"
    assert compare(on_host(*steady), on_host(*steady)).floor_share == FLOOR_ON_HOST


def test_the_prediction_stands_beside_what_was_achieved() -> None:
    patch = Patch(target="training_arguments", set={"dataloader_num_workers": 4})
    applied = Applied(patches=(patch,), rule="data-wait", predicted_speedup=(1.2, 1.3))
    faster = run(*(0.8 * ms for ms in EVEN), applied=applied)

    kept = compare(run(*EVEN), faster).promise
    broken = compare(run(*(0.8 * ms for ms in EVEN)), faster).promise

    assert kept is not None
    assert broken is not None
    assert kept.judgement is not None
    assert broken.judgement is not None
    assert (kept.patched, kept.judgement.standing) == ("after", "as")
    assert broken.judgement.standing == "less"


@pytest.mark.long
def test_four_workers_instead_of_none_make_resnet50_1_40x_faster() -> None:
    file_beside("DIAGNOSE_REAL_TRACES", "LABELS.md")
    found = compare(side(REAL / "resnet50-v100-workers0"), side(REAL / "resnet50-v100-workers4"))

    assert found.verdict == "better"
    assert found.speedup is not None
    assert round(found.speedup[1], 2) == 1.40
    assert found.difference[0].cause == "data-wait"
    assert found.difference[0].ns == -56_391_400
    assert found.difference_ns == -50_343_000


def test_a_trace_is_no_different_from_itself() -> None:
    healthy = side(SAMPLES / "cpu-healthy.json.gz")

    found = compare(healthy, replace(healthy, source="again"))

    assert found.verdict == "no_difference"
    assert found.speedup is not None
    assert found.speedup[1] == 1.0
    assert found.same_work is True


@pytest.mark.long
def test_of_200_pairs_of_equal_runs_two_in_a_hundred_at_most_are_called_different() -> None:
    pairs = _equal_runs()

    verdicts = [compare(one, other).verdict for one, other in pairs]

    assert len(verdicts) >= 200
    assert sum(verdict in ("better", "worse") for verdict in verdicts) <= 0.02 * len(verdicts)
    assert verdicts.count("not_comparable") == 0


def _equal_runs() -> list[tuple[Side, Side]]:
    """Every two published repeats of one system, as logs."""
    path, runs = public_table("mlperf_v5.1_step_times.csv.gz"), dict[tuple[str, ...], dict[str, list[float]]]()
    with io.TextIOWrapper(gzip.open(path), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            system = (row["system"], row["benchmark"], row["accelerators"], row["global_batch_size"])
            runs.setdefault(system, {}).setdefault(row["run"], []).append(float(row["step_time_s"]))
    sides = [[_log(np.array(seconds)) for seconds in repeats.values()] for repeats in runs.values()]
    return [pair for repeats in sides for pair in itertools.combinations(repeats, 2)]


def _log(seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Side:
    track = Track(None, "", np.arange(1, len(seconds) + 1), seconds)
    return side_of_log(Series("csv", (), "s", (track,)), "log")
