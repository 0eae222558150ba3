"""What came before the first step: its parts add up to the start, and long ones have a remedy with what it saves."""

from typing import Any

import pytest
from diagnoses import diagnosis, judged

from diagnose.diagnosis import Start
from diagnose.judge.goodput import goodput_of
from diagnose.judge.start import start_of, with_start
from diagnose.report.views.goodput import start_lines
from diagnose.trace.record import CaptureRecord, decoded

S = 1_000_000_000
SKIPPED = {"batches": 900, "ns": 11 * S, "ranges_ns": {"diagnose.import": S, "diagnose.data_wait": 10 * S}}


def record(rank: int = 0, wall_s: int = 100, compile_s: int = 0, **more: Any) -> CaptureRecord:
    """A run with 40 s to its first step, of which an evaluation takes 2."""
    took = {"import": 5, "map": 12, "eval": 2, "load_model": 1, "process_group": 1, "data_wait": 10}
    took |= more.pop("took", {})
    ranges = {f"diagnose.{name}": s * S for name, s in took.items()}
    steps = {"ns": (wall_s - 40) * S, "ranges_ns": {"diagnose.compile": compile_s * S}}
    spans = {"before": {"ns": 40 * S, "ranges_ns": ranges}, "in_steps": steps, "after": {"ns": 0, "ranges_ns": {}}}
    maps = {"calls": 1, "computed": 1, "in_memory": 0, "processes": 1} | more.pop("maps", {})
    run_time = {"wall_ns": wall_s * S, "first_seen": True, "ended": True, "skipped": SKIPPED, "maps": maps, **spans}
    cores = {"usable": 8, "local_ranks": 2}
    return decoded(
        {"rank": rank, "run_time": run_time, "cores": cores, "training_loop": "transformers Trainer", **more}
    )


def start(*records: CaptureRecord) -> Start:
    found = start_of(records)
    assert found is not None
    return found


def test_the_parts_add_up_to_the_start_and_skipped_batches_hold_no_part_that_is_counted_elsewhere() -> None:
    told = start(record())

    assert told.parts == pytest.approx(
        {
            "datasets.map": 12,
            "batches read and skipped": 10,
            "imports": 5,
            "loading the model": 1,
            "start of the process group": 1,
            "other": 9,
        }
    )
    assert sum(told.parts.values()) == pytest.approx(told.time_s)
    goodput = goodput_of(record())
    assert goodput is not None
    assert told.time_s == {part.what: part.time_s for part in goodput.parts}["starting"] == 38


def test_parts_never_exceed_the_start() -> None:
    told = start(record(took={"map": 45}))

    assert sum(told.parts.values()) == pytest.approx(told.time_s)
    assert min(told.parts.values()) >= 0


def test_long_parts_have_a_remedy_with_what_it_saves() -> None:
    told = {each.do.split(":")[0].split(",")[0][:34]: each.saves_s for each in start(record(compile_s=20)).advice}

    assert told == {
        "keep TORCHINDUCTOR_CACHE_DIR on a ": 20,
        "it was not in the cache": 12,
        "if a resume skips these about 900 ": 10,
        "pass num_proc=4": 9,
    }


@pytest.mark.parametrize(
    ("maps", "remedies"),
    [
        ({"computed": 0}, []),
        ({"in_memory": 1}, ["its result is in no file", "pass num_proc=4"]),
        ({"processes": 4}, ["it was not in the cache"]),
    ],
)
def test_what_helps_a_map_depends_on_its_cache_and_its_processes(maps: dict[str, int], remedies: list[str]) -> None:
    advice = start(record(maps=maps)).advice

    assert [each.do.split(":")[0].split(",")[0] for each in advice if each.what == "datasets.map"] == remedies


def test_the_start_is_of_the_rank_that_worked_longest() -> None:
    waits = record(0, took={"map": 0, "process_group": 25, "import": 1})

    assert (start(waits, record(1)).rank, start(record(0), waits).of_ranks) == (1, 2)


@pytest.mark.parametrize(("wall_s", "says"), [(100, "num_proc=4"), (36_000, "it matters little: 0.1 % of the run")])
def test_a_start_that_hardly_counts_in_its_run_has_no_remedies(wall_s: int, says: str) -> None:
    made = record(wall_s=wall_s)
    lines = start_lines(judged(diagnosis(), goodput=with_start(goodput_of(made), start(made))))

    assert lines[0].startswith("before the first step: 38.0 s, of which datasets.map 12.0 s, batches")
    assert says in " ".join(lines)
    assert (len(lines) == 1) is (wall_s > 100)


@pytest.mark.parametrize(
    ("loop", "remedy"),
    [
        ("transformers Trainer", "ignore_data_skip=True"),
        ("Accelerate", "use_stateful_dataloader=True"),
        ("bare loop", "StatefulDataLoader"),
        ("Lightning", "StatefulDataLoader"),
    ],
)
def test_a_resume_skips_less_in_the_words_of_its_loop(loop: str, remedy: str) -> None:
    (advice,) = (each for each in start(record(training_loop=loop)).advice if each.what == "batches read and skipped")

    assert remedy in advice.do


def test_imports_that_nothing_timed_are_said_to_be_unknown() -> None:
    assert "imports" in start(record(took={"import": 0})).unknown
    assert start_of([decoded({"run_time": None})]) is None
