"""benchmarks/strangers.py: a line for each file of a folder, whatever the file is."""

import subprocess
import sys
from pathlib import Path

import pytest
from kineto import Trace

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "strangers.py"
EMPTY_SNAPSHOT = b"\x80\x04}\x94(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94u."


def reviewed(folder: Path) -> dict[str, list[str]]:
    """The cells of each line, by the file."""
    told = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=True)
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in told.stdout.splitlines()]
    return {line[0]: line[1:] for line in cells}


@pytest.mark.long
def test_every_file_is_a_line(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("aten::mm", 100_000)
    job.write(tmp_path / "cpu.json.gz")
    (tmp_path / "cut.json").write_text('{"traceEvents": [', encoding="utf-8")
    (tmp_path / "snapshot.pickle").write_bytes(EMPTY_SNAPSHOT)
    (tmp_path / "ABOUT.md").write_text("What these are.", encoding="utf-8")

    lines = reviewed(tmp_path)

    assert lines.keys() == {"cpu.json.gz", "cut.json", "snapshot.pickle"}
    assert lines["cpu.json.gz"][0] == "compute-bound, low"
    assert "no GPU activity" in lines["cpu.json.gz"][-1]
    assert lines["cut.json"][:2] == ["error", "exit 3"]
    assert lines["cut.json"][2].startswith("Error: ")
    assert lines["snapshot.pickle"][0] in ("memory", "error")
