"""An optimizer that is offloaded to the host: where the wait is from, and what to do about it."""

from pathlib import Path

from analysed import FUSED
from kineto import Trace
from remedies.single_gpu_jobs import Work, analysed, job, product

from diagnose.diagnosis import Diagnosis

MIB = 1 << 20


def updating(folder: Path, update: Work) -> Diagnosis:
    """Gradients go to the host, which waits for them, and weights come back, whoever updates them."""

    def work(trace: Trace) -> None:
        trace.copy(64 * MIB, "DtoH", pinned=True)
        trace.sync()
        trace.host(300)
        with trace.optimizer("DeepSpeedCPUAdam"):
            update(trace)
        trace.copy(64 * MIB, pinned=True)

    return analysed(folder, job(product(2000), work))


def test_an_offloaded_optimizer_is_moved_to_the_gpu_before_waits_are_looked_for(tmp_path: Path) -> None:
    answer = updating(tmp_path, lambda trace: trace.host(5000))
    found = next(finding for finding in answer.findings if finding.rule == "host-optimizer")

    assert found.action == "keep the optimizer on the GPU"
    assert "DeepSpeedCPUAdam updates on the host" in found.do
    back = next(finding for finding in answer.findings if finding.rule == "exposed-copies")
    assert back.action in ("keep the optimizer on the GPU", "keep offloaded weights and states on the GPU")
    assert "exposed-copies-to-host" not in {finding.rule for finding in answer.findings}
    assert "sync-every-step" not in {finding.rule for finding in answer.findings}
    assert any("the optimizer updates on the host" in each.because for each in answer.not_advised)


def test_one_that_launches_kernels_updates_on_the_gpu(tmp_path: Path) -> None:
    def update(trace: Trace) -> None:
        trace.host(5000)
        trace.op("aten::_fused_adamw_", kernel=FUSED, gpu_us=50)

    found = {finding.rule: finding for finding in updating(tmp_path, update).findings}

    assert "sync-every-step" in found
    assert "updates on the host" not in found["host-optimizer"].do
