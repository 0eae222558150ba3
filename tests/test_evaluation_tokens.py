"""An evaluation in the window trains on no tokens."""

from pathlib import Path

from analysed import GEMM
from kineto import Trace

from diagnose.analysis import analyze


def test_tokens_of_an_evaluation_are_no_step_s(tmp_path: Path) -> None:
    job = Trace()
    for number in range(3):
        with job.step():
            job.op("aten::embedding", [[32000, 1024], [2, 512]], "indexSelectLargeIndex", 100)
            job.op("aten::mm", [[2048, 1024], [1024, 32000]], GEMM, 9_000)
            if number == 1:
                with job.annotation("diagnose.eval"):
                    job.op("aten::embedding", [[32000, 1024], [64, 512]], "indexSelectLargeIndex", 100)
                    job.op("aten::mm", [[2048, 1024], [1024, 32000]], GEMM, 9_000)
            job.sync()
    job.write(tmp_path / "rank0.json.gz")

    assert analyze(tmp_path).mfu.tokens_per_step == 1024
