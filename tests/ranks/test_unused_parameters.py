"""DDP's search for unused parameters in a real job: it is not switched off where a parameter gets no gradient."""

import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs
from two_ranks import JOBS, LAUNCHER, PATIENCE_S, diagnosed, fact


@pytest.mark.capture
@pytest.mark.parametrize(("kind", "unused_bytes"), [("unused", 16 * 16 * 4), ("all", 0)])
def test_the_search_goes_only_where_all_parameters_get_a_gradient(kind: str, unused_bytes: int, tmp_path: Path) -> None:
    needs("torch")
    found = diagnosed(tmp_path, "unused_parameters.py", kind)
    patches = {finding.rule: finding.patch for finding in found.findings}

    assert fact(found, "unused_parameter_bytes") == unused_bytes
    assert fact(found, "broadcasts_buffers") is True
    if unused_bytes:
        assert "unused-parameter-search" not in patches
        assert any("get no gradient" in no.because for no in found.not_advised)
    else:
        patch = patches["unused-parameter-search"]
        assert patch is not None
        assert patch.set == {"find_unused_parameters": False}


@pytest.mark.capture
def test_no_static_graph_is_advised_where_torch_would_fail_with_it(tmp_path: Path) -> None:
    needs("torch")
    job = [sys.executable, *LAUNCHER, str(JOBS / "unused_parameters.py"), "unused", "accumulates"]
    as_advised = subprocess.run([*job, "static"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    found = diagnosed(tmp_path, "unused_parameters.py", "unused", "accumulates")

    assert fact(found, "micro_steps_per_update") == 2
    assert "INTERNAL ASSERT" in as_advised.stderr or as_advised.returncode == 0  # a later torch may take it
    assert "repeated-graph-search" not in {finding.rule for finding in found.findings}
    assert not any(finding.patch and "static_graph" in finding.patch.set for finding in found.findings)
