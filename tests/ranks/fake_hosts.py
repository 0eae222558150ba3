"""Folders as / of a host, whose /sys has ports as Linux and the drivers of InfiniBand, RoCE and bonds write them."""

from pathlib import Path

ACTIVE = "4: ACTIVE"
MELLANOX = "0x15b3"


class FakeHost:
    """A folder as / of a host, with ports in its /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sys/class").mkdir(parents=True, exist_ok=True)

    def rdma(
        self,
        name: str,
        *rates: str,
        link: str = "InfiniBand",
        state: str = ACTIVE,
        opens: bool | None = True,
        address: str = "",
        of_card: str = "",
        id: str = "0x1021",
    ) -> None:
        device = self.root / f"sys/class/infiniband/{name}"
        number = len(list((self.root / "sys/class/infiniband").glob("*")))
        for port, rate in enumerate(rates, 1):
            files = {"rate": rate, "state": state, "phys_state": "5: LinkUp", "link_layer": link}
            self._write(device / f"ports/{port}", files)
        self._pci(device, address or f"0000:{number + 16:02x}:00.0", of_card, id)
        if opens is not None:
            verbs = f"uverbs{number}"
            self._write(self.root / f"sys/class/infiniband_verbs/{verbs}", {"ibdev": name})
            if opens:
                self._write(self.root / "dev/infiniband", {verbs: ""})

    def card(self, name: str, speed: str = "", state: str = "up", device: bool = True, **files: str) -> None:
        folder = self.root / f"sys/class/net/{name}"
        self._write(folder, {"speed": speed, "operstate": state, "type": "1", **files})
        if device:
            self._pci(folder, "0000:01:00.0", "", "0x1021")

    def _pci(self, folder: Path, address: str, of_card: str, id: str) -> None:
        bus = self.root / "sys/devices"
        self._write(bus / address, {"vendor": MELLANOX, "device": id})
        if of_card:
            (bus / of_card).mkdir(exist_ok=True)
            (bus / address / "physfn").symlink_to(bus / of_card)
        (folder / "device").symlink_to(bus / address)

    @staticmethod
    def _write(folder: Path, files: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")
