"""A try as it can be kept: the files, and the command that reads them."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

ABOUT = "case.json"
World = Literal["plain", "inside", "patch", "cached", "not run", "agent", "limited"]


@dataclass(frozen=True)
class Case:
    """Files by their path in a folder, and what is done with them.

    Attributes:
        kind: of what kind the mutated input is.
        arguments: of the command `diagnose`; "@" stands for the folder of the files.
        files: content by path.
        world: "plain" runs the command elsewhere, "inside" with the folder as the working directory, "patch" reads the
            only argument as `--apply` does, "cached" runs it a second time after `entry.bin` took the place of the
            cache entry that the first run left; with "not run" no job is started, and what it would leave is in the
            files; "agent" asks the tool that is named first with the arguments behind it; "limited" runs it in the
            environment that `environment.json` says.
    """

    kind: str
    arguments: tuple[str, ...]
    files: dict[str, bytes]
    world: World = "plain"

    def write(self, folder: Path) -> None:
        """Writes the files; what the folder held before is gone."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))


def saved(case: Case, folder: Path, because: str) -> None:
    """Keeps the case in `folder`, with what it ended in."""
    case.write(folder)
    about = {name: value for name, value in asdict(case).items() if name != "files"} | {"found": because}
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def loaded(folder: Path) -> Case:
    """The case kept in `folder`."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ABOUT)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return Case(about["kind"], tuple(about["arguments"]), files, about["world"])


def kept_cases(folder: Path) -> Iterator[Path]:
    """The folders of the kept cases, by name."""
    return iter(sorted(path.parent for path in folder.glob(f"*/{ABOUT}")))
