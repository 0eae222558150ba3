"""The network between nodes is judged by its ports: from /sys to the record, and from the record to a finding.

No such hardware is here: the folders are written as Linux and its drivers write them.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from distributed_traces import passes, together
from faulty_traces import MIB
from kineto import Trace, collective
from ranks.fake_hosts import FakeHost
from simulator import Job, simulate
from simulator.job import Parallelism, Transport

from diagnose.analysis import Options, analyze
from diagnose.commands.doctor import checks
from diagnose.diagnosis import Diagnosis
from diagnose.probes.facts import record as written
from diagnose.probes.machine.network_ports import network_ports
from diagnose.ranks.network.ports import Ports, ports_of, rdma_devices
from diagnose.trace.record import CaptureRecord, decoded

EDR, NDR, QDR = "100 Gb/sec (4X EDR)", "400 Gb/sec (4X NDR)", "40 Gb/sec (4X QDR)"
DOWN, VIRTUAL_FUNCTION = "1: DOWN", "0x101e"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path / "host")


def record_of(host: FakeHost, **variables: str) -> CaptureRecord:
    """The record of a rank on that host, as it is read again."""
    return decoded(json.loads(json.dumps({"network_ports": network_ports(host.root), "environment": variables})))


def test_a_port_is_recorded_with_its_rate(host: FakeHost) -> None:
    host.rdma("mlx5_0", EDR)
    host.card("eth0", "10000")

    port, card = network_ports(host.root) or []

    assert port == {
        "name": "mlx5_0", "port": 1, "rdma": True, "link": "InfiniBand", "up": True, "gbit_per_s": 100.0,
        "opens": True, "pci_address": "0000:10:00.0", "virtual": False,
    }  # fmt: skip
    assert (card["name"], card["rdma"], card["gbit_per_s"]) == ("eth0", False, 10.0)


def test_a_system_without_sys_has_no_ports(tmp_path: Path) -> None:
    assert network_ports(tmp_path) is None
    assert ports_of(decoded({"network_ports": None})) is None


@pytest.mark.parametrize("text", ["", "unknown", "Gb/sec", "0 Gb/sec (4X SDR)", "-1"])
def test_a_rate_that_is_no_rate_is_not_known(text: str, host: FakeHost) -> None:
    host.rdma("mlx5_0", text)
    host.card("eth0", text)

    assert [port["gbit_per_s"] for port in network_ports(host.root) or []] == [None, None]
    assert ports_of(record_of(host)) is None


def test_bits_become_bytes_and_ports_of_a_kind_add_up(host: FakeHost) -> None:
    for number in range(8):
        host.rdma(f"mlx5_{number}", NDR)
    host.rdma("mlx5_8", EDR)
    host.card("eth0", "25000")

    ports = ports_of(record_of(host))

    assert ports == Ports("InfiniBand", 8, 50.0)
    assert (ports.node_gbs(8), ports.node_gbs(2)) == (400.0, 100.0)


def test_two_ports_of_one_device_are_two(host: FakeHost) -> None:
    host.rdma("mlx5_0", EDR, EDR)

    assert ports_of(record_of(host)) == Ports("InfiniBand", 2, 12.5)
    assert rdma_devices(record_of(host)) == 1


def test_a_port_that_is_down_does_not_count(host: FakeHost) -> None:
    host.rdma("mlx5_0", EDR)
    host.rdma("mlx5_1", NDR, state=DOWN)

    assert ports_of(record_of(host)) == Ports("InfiniBand", 1, 12.5)
    assert rdma_devices(record_of(host)) == 1


def test_rdma_over_ethernet_is_roce(host: FakeHost) -> None:
    host.rdma("mlx5_bond_0", EDR, link="Ethernet")
    host.card("bond0", "200000", device=False)

    assert ports_of(record_of(host)) == Ports("RoCE", 1, 12.5)


def test_virtual_functions_of_one_infiniband_card_count_once(host: FakeHost) -> None:
    host.rdma("mlx5_0", NDR, address="0000:10:00.0")
    host.rdma("mlx5_2", NDR, address="0000:10:00.2", of_card="0000:10:00.0")
    host.rdma("mlx5_3", NDR, address="0000:10:00.3", of_card="0000:10:00.0")

    assert ports_of(record_of(host)) == Ports("InfiniBand", 1, 50.0)


@pytest.mark.parametrize("of_card", ["0000:10:00.0", ""], ids=["on the host", "in a virtual machine"])
def test_the_part_of_a_roce_card_that_a_virtual_function_has_is_not_known(of_card: str, host: FakeHost) -> None:
    host.rdma("mlx5_2", EDR, link="Ethernet", address="0000:10:00.2", of_card=of_card, id=VIRTUAL_FUNCTION)

    assert ports_of(record_of(host)) is None


def test_the_rate_of_another_kind_of_link_is_not_judged(host: FakeHost) -> None:
    host.rdma("rdmap16s27", EDR, link="Unspecified")
    host.card("ens5", "100000")

    assert ports_of(record_of(host)) is None


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("mlx5_0", Ports("InfiniBand", 1, 12.5)),
        ("=mlx5_1", Ports("InfiniBand", 2, 12.5)),
        ("mlx5_1:2", Ports("InfiniBand", 1, 12.5)),
        ("^mlx5_1", Ports("InfiniBand", 1, 12.5)),
        ("mlx5", Ports("InfiniBand", 3, 12.5)),
        ("ib7", Ports("InfiniBand", 3, 12.5)),
    ],
)
def test_the_cards_that_nccl_is_told_to_use(chosen: str, expected: Ports, host: FakeHost) -> None:
    host.rdma("mlx5_0", EDR)
    host.rdma("mlx5_1", EDR, EDR)

    assert ports_of(record_of(host, NCCL_IB_HCA=chosen)) == expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("", Ports("Ethernet", 1, 12.5)),
        ("eth0", Ports("Ethernet", 1, 1.25)),
        ("^bond", Ports("Ethernet", 1, 1.25)),
        ("wlan", None),
    ],
)
def test_without_rdma_sockets_use_one_card(chosen: str, expected: Ports | None, host: FakeHost) -> None:
    host.card("eth0", "10000")
    host.card("eth1", "50000", bonding_slave="")
    host.card("eth2", "50000", bonding_slave="")
    host.card("bond0", "100000", device=False, bonding_slave="")
    (host.root / "sys/class/net/bond0/bonding_slave").unlink()
    (host.root / "sys/class/net/bond0/bonding").mkdir()
    host.card("docker0", "10000", device=False)

    assert ports_of(record_of(host, NCCL_SOCKET_IFNAME=chosen)) == expected


def test_the_rate_of_a_virtual_card_is_not_known(host: FakeHost) -> None:
    host.card("eth0", "-1")
    host.card("eth1", "10000", device=False)  # of a container: the kernel's default

    assert ports_of(record_of(host)) is None


def test_older_records_count_devices() -> None:
    assert rdma_devices(decoded({"infiniband_devices": 8})) == 8
    assert rdma_devices(decoded({})) is None


def test_a_container_without_the_devices_sees_ports_that_it_may_not_open(host: FakeHost) -> None:
    host.rdma("mlx5_0", NDR, opens=False)

    assert ports_of(record_of(host)) == Ports("InfiniBand", 1, 50.0, closed=True)


def test_the_record_of_a_run_has_the_ports_of_its_host() -> None:
    there = written._machine(1)["network_ports"]

    assert there == network_ports()
    assert (there is None) == (not os.path.isdir("/sys/class"))


# -- the whole way ---------------------------------------------------------------------------------------------------


def diagnosed(
    folder: Path, hosts: Sequence[FakeHost], us: float, options: Options | None = None, **variables: str
) -> Diagnosis:
    """Ranks on hosts of their own exchange 64 MiB in so many microseconds, in each of five steps."""
    jobs = [Trace(rank=rank, world=len(hosts)) for rank in range(len(hosts))]
    for _ in range(5):
        with together(jobs):
            for job in jobs:
                passes(job)
            collective(jobs, "allreduce", 64 * MIB, us, wait=True)
            for job in jobs:
                job.sync()
    for job, host in zip(jobs, hosts, strict=True):
        job.write(folder / f"rank{job.rank}.json")
        record: dict[str, Any] = {"network_ports": network_ports(host.root), "environment": variables}
        (folder / f"capture-rank{job.rank}.json").write_text(json.dumps({**record, "host": f"node{job.rank}"}))
    return analyze(folder, options=options or Options())


def two_hosts(tmp_path: Path, *rates: str, **more: Any) -> list[FakeHost]:
    hosts = [FakeHost(tmp_path / f"host{number}") for number in range(2)]
    for host in hosts:
        for number, rate in enumerate(rates):
            host.rdma(f"mlx5_{number}", rate, **more)
    return hosts


def slow_network(found: Diagnosis) -> str | None:
    """What is said of the network; None if nothing is found."""
    finding = next((f for f in found.findings if f.rule == "slow-network"), None)
    return None if finding is None else " ".join(f"{finding.says} {finding.do}".split())


SOCKETS_US, USUAL_US = 24_000, 3_000  # of 64 MiB over a port of 25 GB/s: 2.8 GB/s, and 22


def test_sockets_beside_infiniband_are_found_without_being_told(tmp_path: Path) -> None:
    said = slow_network(diagnosed(tmp_path, two_hosts(tmp_path, "200 Gb/sec (4X HDR)"), SOCKETS_US)) or ""

    assert "move 2.8 GB/s of bus bandwidth" in said
    assert "over a node's InfiniBand port of 25.0 GB/s" in said
    assert "NET/Socket" in said
    assert "NCCL_SOCKET_IFNAME" in said


def test_the_usual_rate_is_no_finding(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, two_hosts(tmp_path, "200 Gb/sec (4X HDR)"), USUAL_US)

    assert slow_network(found) is None
    assert "slow-network" not in {n.rule for n in found.not_judged}


def test_one_rank_of_a_node_is_not_asked_for_all_ports(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, two_hosts(tmp_path, *["200 Gb/sec (4X HDR)"] * 8), USUAL_US)

    assert slow_network(found) is None


def test_the_slowest_node_is_what_is_expected(tmp_path: Path) -> None:
    fast, slow = two_hosts(tmp_path, NDR)[0], FakeHost(tmp_path / "slow")
    slow.rdma("mlx5_0", "25 Gb/sec (1X EDR)", link="Ethernet")

    assert slow_network(diagnosed(tmp_path, [fast, slow], SOCKETS_US)) is None


def test_closed_devices_are_named_first(tmp_path: Path) -> None:
    said = slow_network(diagnosed(tmp_path, two_hosts(tmp_path, NDR, opens=False), SOCKETS_US)) or ""

    assert "--device /dev/infiniband" in said


def test_slow_sockets_on_a_fast_card(tmp_path: Path) -> None:
    hosts = two_hosts(tmp_path)
    for host in hosts:
        host.card("eth0", "200000")

    said = slow_network(diagnosed(tmp_path, hosts, SOCKETS_US)) or ""

    assert "a node's Ethernet port of 25.0 GB/s" in said
    assert "NCCL_NSOCKS_PERTHREAD" in said


def test_a_stated_rate_has_precedence(tmp_path: Path) -> None:
    hosts = two_hosts(tmp_path, "200 Gb/sec (4X HDR)")

    assert slow_network(diagnosed(tmp_path, hosts, SOCKETS_US, Options(network_gbs=3))) is None


def test_a_node_without_ports_leaves_the_network_unjudged(tmp_path: Path) -> None:
    hosts = [*two_hosts(tmp_path, NDR)[:1], FakeHost(tmp_path / "bare")]

    found = diagnosed(tmp_path, hosts, SOCKETS_US)

    assert slow_network(found) is None
    assert "neither stated nor recorded" in {n.rule: n.because for n in found.not_judged}["slow-network"]


def test_infiniband_that_is_switched_off_is_named_first(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, two_hosts(tmp_path, NDR), SOCKETS_US, NCCL_IB_DISABLE="1")

    named = [f.rule for f in found.findings if f.rule in ("infiniband-off", "slow-network")]
    assert named[0] == found.next.rule == "infiniband-off"


def test_switched_off_where_all_ports_are_down(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, two_hosts(tmp_path, NDR, state=DOWN), SOCKETS_US, NCCL_IB_DISABLE="1")

    assert "infiniband-off" not in {f.rule for f in found.findings}
    assert any("0 InfiniBand or RoCE devices" in n.because for n in found.not_advised)


@pytest.mark.parametrize("parallelism", ["ddp", "fsdp", "tp_dp"])
@pytest.mark.parametrize(("gbs", "severity"), [(40, None), (3, "warning")])
def test_simulated_jobs_over_two_nodes_of_four_ports(
    parallelism: Parallelism, gbs: float, severity: str | None, tmp_path: Path, host: FakeHost
) -> None:
    """Of each port's 50 GB/s a rank reaches 40, as is usual, or 3."""
    job = Job(8, 4, steps=3, parallelism=parallelism, transport=Transport(network_bytes_per_s_per_rank=gbs * 1e9))
    simulate(job).write(tmp_path)
    for number in range(4):
        host.rdma(f"mlx5_{number}", NDR)
    for rank, node in enumerate(job.node):
        record = {"network_ports": network_ports(host.root), "environment": {}, "host": job.hosts[node]}
        (tmp_path / f"capture-rank{rank}.json").write_text(json.dumps(record))

    found = analyze(tmp_path)

    assert next((f.severity for f in found.findings if f.rule == "slow-network"), None) == severity
    assert "slow-network" not in {n.rule for n in found.not_judged}


# -- the doctor ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opens", "state", "says"),
    [
        (True, "ok", "mlx5_0:1 InfiniBand 100 Gbit/s (12.5 GB/s)"),
        (False, "warn", "/dev/infiniband may not be opened"),
    ],
)
def test_the_doctor_shows_the_ports(opens: bool, state: str, says: str, host: FakeHost) -> None:
    host.rdma("mlx5_0", EDR, opens=opens)
    host.rdma("mlx5_1", QDR, state=DOWN, opens=opens)

    check = checks.network(network_ports(host.root))

    assert (check.name, check.state) == ("network", state)
    assert says in check.says
    assert "mlx5_1:1 InfiniBand down" in check.says


def test_the_doctor_of_a_host_without_rdma(host: FakeHost) -> None:
    host.card("eth0", "10000")

    assert checks.network(network_ports(host.root)).says.startswith(
        "eth0 Ethernet 10 Gbit/s (1.25 GB/s); no InfiniBand"
    )
    assert checks.network([]).state == "unknown"
