"""What the trace shows nothing of for long is Python if samples of the stack say so, and unexplained if not."""

from pathlib import Path

import pytest
from analysed import GEMM
from kineto import Trace
from lines.lines_jobs import Sampled, recorded, samples

from diagnose.diagnosis import Diagnosis


def writing(folder: Path, *sampled: Sampled) -> Diagnosis:
    """Steps of which the GPU waits 8 of 10 ms while the host does what no operator or range shows."""
    job = Trace()
    for _ in range(5):
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], GEMM, 2000)
            job.sync()
            job.host(8000)
    return recorded(folder, [job], {"stack_samples": samples(*sampled)} if sampled else {})


def test_samples_name_what_the_trace_does_not_show(tmp_path: Path) -> None:
    found = writing(tmp_path, ("save", "step", "save", 90), ("forward", "forward", None, 10))

    assert (found.verdict.class_, found.next.rule) == ("host-bound", "python-host")
    assert found.next.where[0].function == "save"


@pytest.mark.parametrize(
    "sampled",
    [
        [],
        [("save", "step", "save", 15), ("log", "step", "save", 14)],
        [("save", "step", "save", 20), ("forward", "forward", None, 80)],
        [("meet", "step", "barrier", 100)],
    ],
    ids=["none", "too few", "too little of it", "it waits for others"],
)
def test_without_such_samples_nobody_knows(sampled: list[Sampled], tmp_path: Path) -> None:
    assert writing(tmp_path, *sampled).verdict.class_ == "undecided"
