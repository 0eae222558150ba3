"""Every reason to refuse a change: the run refuses it, the record states it, and no report advises it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from capture.scripts import run, said
from harmless.refused_job import Job
from harmless.refused_jobs import JOBS
from needs import needs

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis
from diagnose.patch.patches import reachable
from diagnose.probes.apply.reasons import JOB, Reason

needs("torch", "transformers", "accelerate")

RULE = """
title = "The change is asked for"
class = "host"
maturity = "stable"
warning = "step_count >= 1"
says = "It has steps."
do = "Make the change."
unless = "Never."
see = ["https://docs.pytorch.org/docs/stable/data.html"]
[patch]
target = "{}"
[patch.set]
{} = {}
[[example]]
name = "steps"
facts = {{ step_count = 3 }}
expect = "warning"
[[example]]
name = "none"
facts = {{ step_count = 0 }}
expect = "quiet"
"""


def advising(folder: Path, job: Job, bundle: Path) -> Diagnosis:
    """The diagnosis of the bundle, with a rule that asks for the change."""
    (folder / "rules").mkdir(exist_ok=True)
    target, key, value = job.advised
    (folder / "rules" / "asked-for.toml").write_text(RULE.format(target, key, json.dumps(value)))
    return analyze(bundle, options=Options(rules_dirs=(folder / "rules",)))


def entries(record: dict[str, Any], part: str, because: str) -> list[dict[str, Any]]:
    return [entry for entry in record[part] if entry["because"].startswith(because)]


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_what_a_run_refuses_is_recorded_and_never_advised(reason: Reason, tmp_path: Path) -> None:
    job = JOBS[reason]
    because = (reason.text.format(job.told) if job.told else reason.text)[:200]
    done = run(job.script, tmp_path, {}, patch=job.patch)
    record = json.loads((tmp_path / "out" / "capture-rank0.json").read_text())
    found = advising(tmp_path, job, tmp_path / "out")
    asking = [finding for finding in found.findings if finding.rule == "asked-for"]

    assert done.returncode == 0, done.stderr
    assert any(f"({because}" in line for line in said(done)), done.stderr
    assert {entry["binds"] for entry in entries(record, "refused", because)} == {reason.binds}
    assert bool(entries(record, "refuses", because)) == job.read
    if reason.binds == JOB:
        assert asking == []
        assert any(each.because.startswith(because) for each in found.not_advised)
    else:
        assert [(f.patch is not None, f.patch and reachable(f.patch)) for f in asking] == [(True, False)]
