"""What a side is read from: traces, a diagnosis as JSON, a log; and what is refused."""

import json
from pathlib import Path

import diagnoses
import pytest
from compared_runs import SAMPLES, run, side
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.commands.compare.command import side_at
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.side import Side, side_of
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.reading import diagnosis_in, kind_of
from diagnose.errors import UserError

SLOW_RANK = SAMPLES / "gloo-slow-rank"


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return analyze(SLOW_RANK)


def written(folder: Path, diagnosis: Diagnosis) -> Path:
    path = folder / "diagnosis.json"
    path.write_text(diagnosis.to_json(), encoding="utf-8")
    return path


def test_a_diagnosis_read_back_is_the_side_of_its_traces(tmp_path: Path, diagnosis: Diagnosis) -> None:
    read = side_at(str(written(tmp_path, diagnosis)))

    assert replace(read, source="") == replace(side(SLOW_RANK), source="")
    assert diagnosis_in(diagnosis.to_json().encode(), tmp_path) == diagnosis


def test_the_steps_of_a_diagnosis_add_up_by_step_and_by_cause(diagnosis: Diagnosis) -> None:
    steps, ranks = diagnosis.steps, len(diagnosis.ranks)
    by_step = zip(*(entry.by_step_ns for entry in diagnosis.ledger), strict=True)

    assert all(sum(entry.by_step_ns) == entry.ns for entry in diagnosis.ledger)
    assert [round(sum(step) / ranks) for step in by_step] == list(steps.each_ns)


def test_a_diagnosis_without_its_steps_is_compared_by_its_mean(tmp_path: Path, diagnosis: Diagnosis) -> None:
    old = json.loads(diagnosis.to_json())
    del old["steps"]["each_ns"], old["steps"]["unprofiled_ns"], old["setup"]
    for entry in old["ledger"]:
        del entry["by_step_ns"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old), encoding="utf-8")

    found = compare(side(SLOW_RANK), side_at(str(path)))

    assert found.verdict == "no_difference"
    assert found.speedup is not None
    assert found.speedup[1] == pytest.approx(1.0)
    assert found.difference_ns == 0


def test_a_log_is_a_side_without_its_start(tmp_path: Path) -> None:
    log = tmp_path / "steps.csv"
    log.write_text("step,step_time_ms\n" + "".join(f"{n},{400 if n < 3 else 100 + n % 2}\n" for n in range(1, 21)))

    found = side_at(str(log))

    assert (found.kind, found.left_out, len(found.unprofiled_ns)) == ("log", 2, 18)
    assert (found.first_step, found.last_step) == (1, 20)


def test_a_log_of_ranks_is_their_mean(tmp_path: Path) -> None:
    rows = [f"{step},{rank},{100 + 20 * rank}" for step in range(1, 9) for rank in (0, 1)]
    log = tmp_path / "steps.csv"
    log.write_text("step,rank,step_time_ms\n" + "\n".join(rows))

    found = side_at(str(log))

    assert found.ranks == 2
    assert set(found.unprofiled_ns) == {110_000_000}


def test_a_long_log_keeps_a_thousand_means(tmp_path: Path) -> None:
    log = tmp_path / "steps.csv"
    log.write_text("step,step_time_ms\n" + "".join(f"{n},{100 + n % 2}\n" for n in range(1, 5001)))

    assert len(side_at(str(log)).unprofiled_ns) == 1000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"schema_version": 3, "verdict": {}}', "cannot use the diagnosis"),
        ('{"schema_version": 4, "verdict": {"class": "fast"}}', "cannot use the diagnosis"),
        ("[" * 100_000, "cannot"),
        ('{"log_history": []}', "no step times"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)

    with pytest.raises(UserError) as refused:
        side_at(str(path))
    assert says in refused.value.format_message() or "trace" in refused.value.format_message()


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        side_at(str(tmp_path / "missing"))


def test_impossible_times_are_refused(diagnosis: Diagnosis) -> None:
    longest = replace(diagnosis, steps=replace(diagnosis.steps, each_ns=(1 << 63, 1 << 63)))

    with pytest.raises(UserError, match="its times are impossible"):
        side_of(longest, "run.json")


def test_figures_that_are_none_are_not_known(diagnosis: Diagnosis) -> None:
    odd = replace(diagnosis, mfu=replace(diagnosis.mfu, tokens_per_step=-5.0))

    assert side_of(odd, "run").tokens_per_step is None


def test_a_diagnosis_by_hand_is_compared_as_it_is() -> None:
    before, after = diagnoses.diagnosis(), diagnoses.diagnosis()

    assert compare(before, after).difference_ns == 0


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b'{"verdict": 1, "schema_version": 4}', "diagnosis"), (b'{"log_history": []}', "trainer state"), (b"{", "")],
)
def test_kinds_of_json_are_told_by_their_keys(content: bytes, kind: str) -> None:
    assert kind_of(content) == kind


def test_settings_of_both_records_and_versions_are_compared() -> None:
    before = run(100, setup={"dataloader.num_workers": 0, "optimizer.fused": False}, versions={"torch": "2.8"})
    after = run(100, setup={"dataloader.num_workers": 4, "environment.OMP_NUM_THREADS": "1", "optimizer.fused": False})

    found = compare(before, replace(after, versions={"torch": "2.9"}))

    assert [(one.what, one.before, one.after) for one in found.configuration] == [
        ("dataloader.num_workers", 0, 4),
        ("environment.OMP_NUM_THREADS", None, "1"),
        ("versions.torch", "2.8", "2.9"),
    ]


def test_without_a_record_what_both_traces_show_is_compared() -> None:
    before: Side = run(100, seen={"loader_workers": "none", "uses_ddp": True})
    after = run(100, seen={"loader_workers": "some"})

    found = compare(before, after)

    assert [one.what for one in found.configuration] == ["loader_workers"]
    assert found.not_compared[-1].because == "A and B come without a capture record"
