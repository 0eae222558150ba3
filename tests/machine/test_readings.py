"""What the driver and the kernel say of the machine, and what of it is kept."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from machine.fake_driver import FakeDriver

from diagnose.probes.machine import nvml
from diagnose.probes.machine.host_readings import HostReadings
from diagnose.probes.machine.nvml_readings import GpuReadings
from diagnose.probes.machine.summary import MOST_POINTS, Samples
from diagnose.trace.record import CaptureRecord, decoded


def gpu(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> GpuReadings:
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda name: driver)
    return GpuReadings("GPU-1")


def test_what_the_driver_says_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    card = gpu(monkeypatch, FakeDriver())

    assert card.gauges() == {
        "sm_clock_mhz": 1155,
        "memory_clock_mhz": 2619,
        "power_w": 402.5,
        "temperature_c": 88,
        "gpu_processes": 2,
    }
    assert card.links() == {"pcie_generation": 3, "pcie_width": 4, "nvlinks": 2}
    assert card.traffic() == {"pcie_sent_bytes_per_s": 10_240, "pcie_received_bytes_per_s": 2_048_000}
    assert card.errors() == {
        "ecc_corrected": 7,
        "ecc_uncorrected": 0,
        "remapped_rows": 4,
        "pcie_replays": 12,
        "nvlink_errors": 6,  # three kinds on each of two links
    }
    assert card.moved() == {"nvlink_sent_bytes": 500 << 10, "nvlink_received_bytes": 700 << 10}
    assert card.reasons() == ["sw_power_cap", "sw_thermal"]
    assert card.limits()["power_limit_default_w"] == 700
    assert (card.limits()["nvlinks_of_host"], card.limits()["nvlink_mb_per_s"]) == (3, 26_562)


def test_a_driver_without_fields_and_other_gpus_leaves_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    card = gpu(monkeypatch, FakeDriver(nvlinks_of_host=(), FieldValues90=0, FieldValues138=0))

    assert not {"nvlinks_of_host", "nvlink_mb_per_s"} & set(card.limits())
    assert "nvlink_sent_bytes" not in card.moved()


def test_the_clock_of_an_idle_gpu_is_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sm_clock_mhz" not in gpu(monkeypatch, FakeDriver(CurrentClocksThrottleReasons=0x1)).gauges()


def test_what_the_driver_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    driver.answers.clear()
    card = gpu(monkeypatch, driver)

    assert card.gauges() == {"gpu_processes": 2}
    assert card.links() == {}
    assert card.errors() == {"remapped_rows": 4}
    assert card.reasons() is None


def kernel(root: Path, **files: str) -> HostReadings:
    """A host whose files under /proc and /sys are those given, with the process and its thread as they are."""
    for path, text in files.items():
        target = root / path.format(pid=os.getpid())
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="ascii")
    return HostReadings(7, root)


def process(user_ticks: int, core: int = 0) -> str:
    fields = ["S", *["0"] * 8, "3", "0", str(user_ticks), "0", *["0"] * 23, str(core), "0"]
    return f"7 (a (b) c) {' '.join(fields)}\n"


def test_what_the_kernel_says_of_the_host(tmp_path: Path) -> None:
    files = {
        "proc/stat": "cpu 1 1 1 1 1 1 1 1\ncpu0 100 0 43 900 30 0 0 7 0 0\nprocs_running 5\n",
        "proc/meminfo": "MemAvailable: 100 kB\nCached: 40 kB\nSwapTotal: 30 kB\nSwapFree: 10 kB\n",
        "proc/vmstat": "pswpin 2\npswpout 3\n",
        "proc/{pid}/stat": process(20),
        "proc/{pid}/task/7/children": "31 32 ",
        "proc/31/stat": process(5),
        "proc/31/io": "read_bytes: 21\n",
        "proc/32/io": "read_bytes: 22\n",
        "sys/fs/cgroup/io.pressure": "some avg10=1.00 avg60=0.00 total=9\nfull avg10=0.00 avg60=0.00 total=4\n",
        "sys/fs/cgroup/memory.stat": "anon 5\nworkingset_refault_file 6\n",
        "proc/32/stat": process(6),
        "proc/self/task/7/schedstat": "1000 250000 9\n",
        "proc/self/task/7/stat": process(20, core=0),
        "proc/self/io": "read_bytes: 11\nwrite_bytes: 12\n",
        "proc/self/net/dev": "a\nb\nlo: 9 0 0 0 0 0 0 0 9 0\neth0: 70 0 0 0 0 0 0 0 80 0\n",
        "sys/fs/cgroup/cpu.stat": "throttled_usec 4\n",
        "sys/fs/cgroup/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=6\nfull avg10=0.00 total=2\n",
        "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=600\n",
        "proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=8\n",
        "sys/bus/pci/devices/0000:3b:00.0/local_cpulist": "64-127\n",
    }
    host = kernel(tmp_path, **files)
    host.near("0000:3b:00.0")
    tick_ns = 1e9 / os.sysconf("SC_CLK_TCK")

    assert host.gauges() == {
        "run_queue": 5,
        "page_cache_bytes": 40 << 10,
        "available_bytes": 100 << 10,
        "swapped_bytes": 20 << 10,
        "far_from_gpu": 1,
    }
    assert host.counters() == {
        "allowed_cores_cpu_ns": 150 * tick_ns,
        "stolen_ns": 7 * tick_ns,
        "memory_pressure_ns": 6000,  # the cgroup's own, where it has one
        "process_cpu_ns": 20 * tick_ns,
        "workers_cpu_ns": 11 * tick_ns,
        "waited_for_core_ns": 250_000,
        "throttled_ns": 4_000,
        "swap_bytes": 5 * os.sysconf("SC_PAGE_SIZE"),
        "disk_read_bytes": 11,
        "disk_written_bytes": 12,
        "workers_disk_read_bytes": 43,
        "workers_major_faults": 6,
        "storage_wait_ns": 9_000,
        "read_again_bytes": 6 * os.sysconf("SC_PAGE_SIZE"),
        "network_received_bytes": 70,
        "network_sent_bytes": 80,
    }


WORKERS = ("workers_disk_read_bytes", "workers_major_faults")


def test_without_a_cgroup_of_its_own_the_host_tells_how_long_storage_was_waited_for(tmp_path: Path) -> None:
    counted = kernel(
        tmp_path,
        **{"proc/pressure/io": "some avg10=1.00 total=7\n", "proc/vmstat": "workingset_refault_file 2\n"},
    ).counters()

    assert counted["storage_wait_ns"] == 7_000
    assert counted["read_again_bytes"] == 2 * os.sysconf("SC_PAGE_SIZE")


def test_a_system_without_proc_tells_nothing_and_raises_nothing(tmp_path: Path) -> None:
    host = kernel(tmp_path)

    assert host.gauges() == {}
    assert (
        set(host.counters()) == {"allowed_cores_cpu_ns", "process_cpu_ns", "workers_cpu_ns", *WORKERS}
        or not host.counters()
    )


CARDS = {
    "eth0": 70,
    "eth1": 7,
    "bond0": 77,
    "docker0": 5,
    "eth0.100": 3,
    "lo": 1000,
}


@pytest.mark.parametrize(
    ("devices", "received"),
    [
        (["eth0", "eth1"], 77),  # and not what the bond, the bridge and the VLAN above them count again
        ([], 162),  # a container, whose cards are all virtual
        (["eth0", "lo"], 70),
    ],
)
def test_bytes_are_counted_once_where_cards_stand_above_others(
    devices: list[str], received: int, tmp_path: Path
) -> None:
    rows = "".join(f"{name}: {count} 0 0 0 0 0 0 0 {2 * count} 0\n" for name, count in CARDS.items())
    host = kernel(tmp_path, **{"proc/self/net/dev": f"a\nb\n{rows}"})
    for name in devices:
        (tmp_path / "sys/class/net" / name / "device").mkdir(parents=True)

    counted = host.counters()

    assert (counted["network_received_bytes"], counted["network_sent_bytes"]) == (received, 2 * received)


def samples(count: int, window_at: int) -> Samples:
    """Readings a second apart: a clock that counts up, and ten errors in each second."""
    kept = Samples()
    for second in range(count):
        if second == window_at:
            kept.window_begins()
        kept.add(second, {"sm_clock_mhz": 1000 + second}, {"errors": 10 * second}, ["sw_thermal"] if second % 2 else [])
    return kept


def test_run_and_window_in_short() -> None:
    facts: Any = samples(10, 6).facts()

    assert (facts["samples"], facts["in_window"]) == (10, 4)
    assert facts["gauges"]["sm_clock_mhz"] == {"run": [1000, 1004.5, 1009], "window": [1006, 1007.5, 1009]}
    assert facts["rates"]["errors"] == {"run": [10, 10, 10], "window": [10, 10, 10]}
    assert facts["totals"]["errors"] == 90
    assert facts["throttled"]["sw_thermal"] == {"run": 0.5, "window": 0.5}


def test_readings_that_are_thinned_out_keep_the_window_and_the_whole_of_the_run() -> None:
    kept = samples(100, 90)
    kept.thin_out()
    facts: Any = kept.facts()

    assert (facts["samples"], facts["in_window"]) == (55, 10)
    assert facts["totals"]["errors"] == 990
    assert all(len(column) <= MOST_POINTS for column in facts["series"].values())


def test_a_window_alone_is_thinned_out_too() -> None:
    kept = samples(100, 0)
    kept.thin_out()

    assert kept.facts()["samples"] == 50


def test_the_record_is_decoded_as_it_was_written() -> None:
    written = {"machine_samples": {**samples(10, 6).facts(), "limits": {"cores": 2}, "cost_ms": 1.0, "why_none": None}}
    record: CaptureRecord = decoded(json.loads(json.dumps(written)))

    assert record.lost == ()
    assert record.get("machine_samples.gauges.sm_clock_mhz.window") == [1006, 1007.5, 1009]
