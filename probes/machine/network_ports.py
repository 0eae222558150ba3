"""The network ports of the host, from /sys: InfiniBand, RoCE and Ethernet, with their rates in Gbit/s.

Other systems than Linux have no such files. What cannot be read of a port is null.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

MOST_PORTS = 128
_MELLANOX = "0x15b3"
_VIRTUAL = ("0x1004", "0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e")  # of the PCI IDs of its cards


def network_ports(root: Path = Path("/")) -> list[dict[str, object]] | None:
    """Each port of an RDMA device and each network card; None if the system lists none of its devices.

    A bond stands for its cards. Interfaces that are no device, such as a container's, have no rate of their own and are
    left out.
    """
    classes = root / "sys/class"
    if not classes.is_dir():
        return None
    return [*_rdma_ports(root, classes), *_cards(classes / "net")][:MOST_PORTS]


def peer_memory(root: Path = Path("/")) -> bool:
    """Whether a module lets network cards read and write the memory of GPUs, as NCCL looks for it."""
    places = ("sys/module/nvidia_peermem/version", "sys/kernel/mm/memory_peers/nv_mem/version")
    return any((root / place).exists() for place in (*places, "sys/kernel/mm/memory_peers/amdkfd/version"))


def _rdma_ports(root: Path, classes: Path) -> Iterator[dict[str, object]]:
    for device in _folders(classes / "infiniband"):
        opens = _opens(root, classes, device.name)
        for port in _folders(device / "ports"):
            yield {
                "name": device.name,
                "port": int(port.name) if port.name.isdecimal() else None,
                "rdma": True,
                "link": _text(port / "link_layer") or None,
                "up": _text(port / "state").endswith("ACTIVE"),
                "gbit_per_s": _gbit_per_s(_text(port / "rate")),
                "opens": opens,
                **_function(device / "device"),
            }


def _cards(net: Path) -> Iterator[dict[str, object]]:
    for interface in _folders(net):
        is_card = (interface / "device").exists() or (interface / "bonding").is_dir()
        if not is_card or (interface / "bonding_slave").exists():
            continue
        mbit = _text(interface / "speed")
        yield {
            "name": interface.name,
            "port": None,
            "rdma": False,
            "link": "Ethernet" if _text(interface / "type") in ("", "1") else "InfiniBand",
            "up": _text(interface / "operstate") == "up",
            "gbit_per_s": int(mbit) / 1000 if mbit.isdecimal() and int(mbit) > 0 else None,
            "opens": None,
            **_function(interface / "device"),
        }


def _gbit_per_s(rate: str) -> float | None:
    """The rate in a text such as "100 Gb/sec (4X EDR)"; null if it states none."""
    stated = re.match(r"(\d+(?:\.\d+)?) Gb/sec", rate)
    return float(stated[1]) or None if stated else None


def _opens(root: Path, classes: Path, name: str) -> bool | None:
    """Whether this process may open the device by which programs use it; null if the kernel names none."""
    for verbs in _folders(classes / "infiniband_verbs"):
        if _text(verbs / "ibdev") == name:
            return os.access(root / "dev/infiniband" / verbs.name, os.R_OK | os.W_OK)
    return None


def _function(device: Path) -> dict[str, object]:
    """The address on the PCI bus, of a virtual function (SR-IOV) that of its card where it is known."""
    card = device / "physfn"
    listed = _text(device / "vendor") == _MELLANOX and _text(device / "device") in _VIRTUAL
    address = os.path.basename(os.path.realpath(card if card.exists() else device))
    return {
        "pci_address": address if re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", address) else None,
        "virtual": card.exists() or listed,
    }


def _folders(folder: Path) -> list[Path]:
    """The entries of the folder, in order; none if it is no folder. Entries of /sys/class are links to folders."""
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []


def _text(file: Path) -> str:
    """The text of a small file; "" if it cannot be read, as the speed of a card that is down."""
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
