"""`run --apply` on a real job of two ranks with DDP."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs
from two_ranks import JOBS, LAUNCHER, PATIENCE_S


@pytest.mark.capture
def test_buffers_that_rank_0_alone_filled_are_still_copied_once(tmp_path: Path) -> None:
    needs("torch")
    from torch.nn.parallel import DistributedDataParallel

    if "forward_sync_buffers" not in DistributedDataParallel.__init__.__code__.co_varnames:
        pytest.skip("this torch copies no buffers where it broadcasts none")
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps({"target": "ddp", "set": {"broadcast_buffers": False}}))
    asked = ["run", "--no-ledger", "--out", str(tmp_path / "bundle"), "--apply", str(patch), "--"]
    done = subprocess.run(
        [sys.executable, "-m", "diagnose", *asked, sys.executable, *LAUNCHER, str(JOBS / "differing_buffers.py")],
        cwd=tmp_path, check=True, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip

    assert sorted(re.findall(r"rank \d has [\d.]+", done.stdout)) == ["rank 0 has 28.0", "rank 1 has 28.0"]
    record = json.loads((tmp_path / "bundle" / "capture-rank1.json").read_text())
    assert record["ddp"]["broadcast_buffers"] is False
