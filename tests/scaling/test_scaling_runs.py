"""`diagnose scaling` on single runs: diagnoses, logs of steps and traces; what the longer step goes to."""

import json
from pathlib import Path

import diagnoses
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from diagnose.cli import main
from diagnose.diagnosis import Diagnosis, FactReport, RankReport
from diagnose.predict.run_of_diagnosis import run_of

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(main, ["scaling", *map(str, words)])


def job(*words: str) -> dict[str, object]:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["jobs"][0]  # type: ignore[no-any-return]


def log(path: Path, step_s: float) -> Path:
    rows = "".join(f"{step},{step_s + 1e-4 * (step % 3 - 1)}\n" for step in range(30))
    path.write_text("step,step_time_s\n" + rows, encoding="utf-8")
    return path


def of_gpus(gpus: int, step_ms: float, communication_ms: float, **facts: float) -> Diagnosis:
    """So many ranks whose step holds 90 ms of compute, communication, and data for the rest."""
    parts = {
        "gemm": ("compute", 90.0),
        "exposed_communication": ("communication", communication_ms),
        "data_wait": ("data", step_ms - 90 - communication_ms),
    }
    ledger = diagnoses.ledger(step_ms, 10, **parts)
    verdict = diagnoses.verdict("compute-bound")
    ranks = tuple(RankReport(rank=r, device="cuda", verdict=verdict, ledger=ledger) for r in range(gpus))
    told = tuple(FactReport(name=name, value=value, unit="count") for name, value in facts.items())
    steps = diagnoses.steps(step_ms, 10)
    whole = diagnoses.diagnosis(steps=steps, ledger=ledger, ranks=ranks, facts=told)
    return replace(whole, mfu=replace(whole.mfu, tokens_per_step=8192.0))


def written(path: Path, diagnosis: Diagnosis) -> Path:
    path.write_text(diagnosis.to_json(), encoding="utf-8")
    return path


def test_the_tax_of_two_diagnoses_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    one = written(tmp_path / "one.json", of_gpus(1, 100, 0))
    eight = written(tmp_path / "eight.json", of_gpus(8, 130, 25))
    last = job(one, eight)["sizes"][1]  # type: ignore[index]

    assert last["gpus"] == 8
    assert last["tax_s"][1] == pytest.approx(0.030)
    assert {p["name"]: round(1e3 * p["s"], 3) for p in last["tax_parts"]} == {
        "exposed communication": 25.0,
        "data": 5.0,
        "compute and memory work": 0.0,
    }
    assert (
        "a step at 8 GPUs takes 30.0 ms longer than at 1 GPU: exposed communication +25.0 ms, data +5.0 ms"
        in " ".join(run(one, eight).output.split())
    )


def test_a_diagnosis_without_that_of_the_smallest_size_still_tells_its_communication(tmp_path: Path) -> None:
    eight = written(tmp_path / "eight.json", of_gpus(8, 130, 25))
    found = run(f"1={log(tmp_path / 'one.csv', 0.1)}", eight, "--tokens-per-step-per-gpu", "8192")

    assert "25.0 ms of a step at 8 GPUs are communication that no work hides" in found.output


def test_a_step_without_the_profiler_goes_first_and_its_parts_keep_their_shares() -> None:
    found = run_of(of_gpus(1, 100, 20, unprofiled_step_time_ns=80e6), "run")

    assert found.step_s == pytest.approx(0.080)
    assert found.parts_s["exposed communication"] == pytest.approx(0.016)
    assert sum(found.parts_s.values()) == pytest.approx(found.step_s)


def test_missing_ranks_are_gpus_of_the_job() -> None:
    alone = of_gpus(1, 100, 20, world_size=8.0)

    assert run_of(alone, "run").gpus == 8
    assert run_of(alone, "run").tokens_per_step == 8 * 8192


def test_tokens_that_are_stated_go_before_those_of_a_rank(tmp_path: Path) -> None:
    eight = written(tmp_path / "eight.json", of_gpus(8, 100, 10))  # 8,192 tokens on each rank

    assert job(eight)["sizes"][0]["tokens_per_step"] == 8 * 8192  # type: ignore[index]
    shared = job(eight, "--global-tokens-per-step", "16384")  # pairs of ranks share a batch
    assert shared["sizes"][0]["tokens_per_step"] == 16384  # type: ignore[index]


def test_logs_say_how_fast_once_the_tokens_of_a_step_are_stated(tmp_path: Path) -> None:
    one, eight = f"1={log(tmp_path / '1.csv', 0.5)}", f"8={log(tmp_path / '8.csv', 0.56)}"

    assert "unknown, because no run tells the tokens of a step" in run(one, eight).output
    weak = job(one, eight, "--tokens-per-step-per-gpu", "8192")
    strong = job(one, eight, "--global-tokens-per-step", "8192")
    assert (weak["kind"], round(weak["sizes"][1]["efficiency"][1], 3)) == ("weak", 0.893)  # type: ignore[index]
    assert (strong["kind"], round(strong["sizes"][1]["efficiency"][1], 3)) == ("strong", 0.112)  # type: ignore[index]


def test_a_log_of_ranks_tells_its_gpus_and_another_does_not(tmp_path: Path) -> None:
    ranks = tmp_path / "ranks.csv"
    rows = "".join(f"{step},{rank},0.5\n" for step in range(20) for rank in range(4))
    ranks.write_text("step,rank,step_time_s\n" + rows, encoding="utf-8")
    plain = log(tmp_path / "plain.csv", 0.5)

    assert job(ranks)["base_gpus"] == 4
    refused = run(plain)
    assert refused.exit_code == 3
    assert f"state them: 8={plain}" in refused.output


def test_traces_are_analysed() -> None:
    found = job(SAMPLES / "synthetic-healthy-8", "--tokens-per-step-per-gpu", "8192")

    assert found["sizes"][0]["gpus"] == 8  # type: ignore[index]
    assert round(1e3 * found["sizes"][0]["step_s"][1], 1) == 33.1  # type: ignore[index]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"schema_version": 4, "verdict": {}}', "cannot use the diagnosis"),
        ('{"schema_version": 4, "verdict": ', "not a PyTorch profiler trace"),
        ("[1, 2]", "not a PyTorch profiler trace"),
    ],
)
def test_json_that_is_neither_a_diagnosis_nor_a_trace_is_refused(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content, encoding="utf-8")
    done = run(tmp_path / "x.json")

    assert done.exit_code == 3
    assert says in done.output


def test_a_diagnosis_of_another_version_is_refused(tmp_path: Path) -> None:
    done = run(written(tmp_path / "old.json", replace(of_gpus(1, 100, 0), schema_version=3)))

    assert done.exit_code == 3
    assert "its schema_version is 3, not" in done.output
