"""The ports that NCCL would use between the nodes, by the record of a rank, and what a node's carry together."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from diagnose.decoding import entries
from diagnose.trace.record import CaptureRecord

INFINIBAND, ROCE, ETHERNET = "InfiniBand", "RoCE", "Ethernet"
_GBIT = 8  # of a gigabyte


class Ports(msgspec.Struct, frozen=True):
    """The fastest ports of a host of one kind that are up.

    Attributes:
        kind: InfiniBand, RoCE, or Ethernet, which carries sockets alone.
        count: how many of them NCCL uses, at most.
        each_gbs: rate of each, one direction, GB/s.
        closed: whether the process may open none of their devices.
    """

    kind: str
    count: int
    each_gbs: float
    closed: bool = False

    def node_gbs(self, ranks: int) -> float:
        """Rate of the ports that so many ranks of a node use at least: one each, one direction, GB/s."""
        return min(self.count, ranks) * self.each_gbs


def ports_of(record: CaptureRecord) -> Ports | None:
    """The ports by the record: those of RDMA if any is up, else of the card that sockets take; None if not known.

    The rate of a virtual function of Ethernet is that of its whole card, not of the job's part. Of other links than
    InfiniBand and Ethernet, such as EFA, the rate is not what one job gets.
    """
    up = [port for port in entries(record.get("network_ports")) if port.get("up")]
    rdma = [port for port in up if port.get("rdma")]
    if rdma:
        return _rdma(_named(rdma, record.text("environment.NCCL_IB_HCA")) or rdma)
    cards = _named([port for port in up if not port.get("rdma")], record.text("environment.NCCL_SOCKET_IFNAME"))
    rates = [_gbs(card) for card in cards]
    return Ports(ETHERNET, 1, max(rates)) if rates and 0 not in rates else None


def rdma_devices(record: CaptureRecord) -> int | None:
    """InfiniBand and RoCE devices of the host with a port that is up; in older records all devices."""
    if record.get("network_ports") is None:
        listed = record.number("infiniband_devices")
        return None if listed is None else int(listed)
    ports = entries(record.get("network_ports"))
    return len({port.get("name") for port in ports if port.get("rdma") and port.get("up")})


def _rdma(ports: Sequence[Mapping[str, Any]]) -> Ports | None:
    """The fastest of the ports: slower ones beside them are for storage or administration."""
    fastest = max(ports, key=_gbs)
    alike = [port for port in ports if (port.get("link"), _gbs(port)) == (fastest.get("link"), _gbs(fastest))]
    kind = {"InfiniBand": INFINIBAND, "Ethernet": ROCE}.get(str(fastest.get("link")))
    if kind is None or not _gbs(fastest):
        return None
    return Ports(kind, len({_card(port) for port in alike}), _gbs(fastest), all(p.get("opens") is False for p in alike))


def _gbs(port: Mapping[str, Any]) -> float:
    """Gigabytes per second, 0 if the rate is not known or is another's."""
    shared = port.get("virtual") and port.get("link") == "Ethernet"
    return 0.0 if shared else float(port.get("gbit_per_s") or 0) / _GBIT


def _card(port: Mapping[str, Any]) -> tuple[object, object]:
    """The card that virtual functions have in common."""
    return port.get("pci_address") or port.get("name"), port.get("port")


def _named(ports: Sequence[Mapping[str, Any]], chosen: str | None) -> list[Mapping[str, Any]]:
    """The ports that NCCL's variable leaves: "mlx5_0:1,mlx5" are beginnings of names, "=" whole ones, "^" excluded."""
    if not chosen:
        return list(ports)
    unwanted, words = chosen.startswith("^"), chosen.lstrip("^=").split(",")
    whole = chosen.lstrip("^").startswith("=")
    return [port for port in ports if any(_is(port, word, whole) for word in words) != unwanted]


def _is(port: Mapping[str, Any], word: str, whole: bool) -> bool:
    name, _, number = word.partition(":")
    own = str(port.get("name"))
    return (own == name or (not whole and own.startswith(name))) and number in ("", str(port.get("port")))
