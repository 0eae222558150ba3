"""Series that a monitor kept of the GPUs: which are the rank's own, and what they change."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from faulty_traces import steps

from diagnose.analysis import Options, analyze
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace.exported import Monitored, monitored
from diagnose.trace.readings import clock_of, held_share, reading, total
from diagnose.trace.record import CaptureRecord

BEGIN_S = 1_700_000_000
PAGE = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",pci_bus_id="00000000:3B:00.0",Hostname="node7"} 1155
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-b",pci_bus_id="00000000:86:00.0",Hostname="node7"} 1980
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="0",UUID="GPU-a",pci_bus_id="00000000:3B:00.0",Hostname="node7"} 32
DCGM_FI_DEV_MAX_SM_CLOCK{gpu="0",UUID="GPU-a",pci_bus_id="00000000:3B:00.0",Hostname="node7"} 1980
process_cpu_seconds_total{job="x"} 3
"""


def series(name: str, values: list[tuple[float, float]], **labels: str) -> dict[str, Any]:
    """One series of Prometheus' answer."""
    return {"metric": {"__name__": name, **labels}, "values": [[at, str(value)] for at, value in values]}


def answer(*listed: dict[str, Any]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(listed)}})


def kept(folder: Path, text: str) -> Monitored:
    (folder / "metrics.txt").write_text(text, encoding="utf-8")
    return monitored(folder / "metrics.txt")


def record(**device: Any) -> CaptureRecord:
    return CaptureRecord({"host": "node7.cluster", "device": device})


@pytest.mark.parametrize(
    ("device", "mhz"),
    [({"pci_address": "0000:3b:00.0", "index": 1}, 1155), ({"index": 1}, 1980), ({"index": 5}, None)],
    ids=["by its address, whatever its number", "by its number", "no such GPU"],
)
def test_the_series_of_the_ranks_own_gpu_count(device: dict[str, Any], mhz: float | None, tmp_path: Path) -> None:
    clock = clock_of(kept(tmp_path, PAGE).beside(record(**device), None))

    assert (clock.mhz if clock else None) == mhz


def test_a_gpu_of_another_host_is_not_the_ranks(tmp_path: Path) -> None:
    told = CaptureRecord({"host": "node8", "device": {"index": 0}})

    assert kept(tmp_path, PAGE).beside(told, None) is told


def test_readings_near_the_capture_are_the_windows(tmp_path: Path) -> None:
    clock = [(BEGIN_S, 1980.0), (BEGIN_S + 600, 1100.0), (BEGIN_S + 630, 1200.0), (BEGIN_S + 1200, 1980.0)]
    replays = [(BEGIN_S, 100.0), (BEGIN_S + 1200, 160.0)]
    text = answer(
        series("DCGM_FI_DEV_SM_CLOCK", clock, gpu="0", Hostname="node7"),
        series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", replays, gpu="0", Hostname="node7"),
    )
    found = kept(tmp_path, text).beside(record(index=0), (BEGIN_S + 610, BEGIN_S + 611))
    of_window = reading(found, "sm_clock_mhz")

    assert of_window is not None
    assert (of_window.least, of_window.median, of_window.most) == (1100, 1150, 1200)
    assert total(found, "pcie_replays") == 60
    assert held_share(found, ["sw_thermal"]) is None, "no series tells reasons"


def test_what_the_capture_read_itself_stays(tmp_path: Path) -> None:
    own = {"gauges": {"sm_clock_mhz": {"run": [1500, 1500, 1500], "window": None}}, "throttled": {}}
    told = CaptureRecord({"host": "node7", "device": {"index": 0}, "machine_samples": own})
    found = kept(tmp_path, PAGE).beside(told, None)
    clock = clock_of(found)

    assert clock is not None
    assert (clock.mhz, clock.held_by) == (1500, ())
    assert found.get("machine_samples.limits.sm_clock_max_mhz") == 1980


def test_the_clock_of_an_idle_gpu_is_no_reading(tmp_path: Path) -> None:
    idle = PAGE.replace('Hostname="node7"} 32', 'Hostname="node7"} 1')

    assert clock_of(kept(tmp_path, idle).beside(record(index=0), None)) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[1, 2]", '{"data": 3}', '{"data": {"result": [3, {"metric": 4}]}}', "DCGM_FI_DEV_SM_CLOCK{} x\n"],
)
def test_a_file_without_such_series_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no series of GPUs"):
        kept(tmp_path, text)


@pytest.mark.parametrize("value", ["NaN", "1e999", "-5", "x"])
def test_values_that_no_gpu_has_do_no_harm(value: str, tmp_path: Path) -> None:
    page = PAGE.replace("} 1155", f"}} {value}")
    job, folder = steps(), tmp_path / "run"
    folder.mkdir()
    job.write(folder / "rank0.json")

    assert analyze(folder, options=Options(monitored=kept(tmp_path, page))).verdict.class_ == "compute-bound"


def test_the_command_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    steps().write(folder / "rank0.json")
    (folder / "capture-rank0.json").write_text(json.dumps({"host": "node7", "device": {"index": 0}}), encoding="utf-8")
    (tmp_path / "dcgm.txt").write_text(PAGE, encoding="utf-8")

    done = CliRunner().invoke(main, ["analyze", str(folder), "--metrics", str(tmp_path / "dcgm.txt"), "--json"])

    assert done.exit_code == 0, done.output
    assert "thermal-throttling" in {finding["rule"] for finding in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize(
    "odd",
    [
        {"metric": {"__name__": {}}, "values": []},
        {"metric": {"__name__": "DCGM_FI_DEV_SM_CLOCK"}, "values": 5},
        {"metric": {"__name__": "DCGM_FI_DEV_SM_CLOCK"}, "value": {"a": 1}},
        {"metric": [], "values": "text"},
    ],
)
def test_a_series_that_is_none_is_left_out(odd: dict[str, Any], tmp_path: Path) -> None:
    sound = series("DCGM_FI_DEV_SM_CLOCK", [(BEGIN_S, 1155)], gpu="0")

    assert kept(tmp_path, answer(odd, sound)) == kept(tmp_path, answer(sound))


def test_a_result_that_is_no_list_holds_no_series(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no series of GPUs"):
        kept(tmp_path, '{"data": {"result": 5}}')
