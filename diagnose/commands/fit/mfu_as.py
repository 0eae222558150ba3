"""MFU of a planned job in the count of one project: its model FLOPs and the peak that it divides by."""

from diagnose.errors import WrongUsage
from diagnose.formulas.mfu_conventions import MFU_AS
from diagnose.formulas.model_flops import BACKWARD, BACKWARD_OF_FROZEN, dense_flops_per_token, flops_per_token
from diagnose.predict.memory.adapters import trained_parameters
from diagnose.predict.memory.job import JobPlan


def counted_flops_per_token(plan: JobPlan, mfu_as: str) -> float:
    """Model FLOPs for training one token of the plan's model, as the project counts them.

    A frozen weight has no gradient, so that 4 FLOPs count for it in place of 6, as Megatron-Bridge counts LoRA.
    """
    whole = flops_per_token(plan.model, plan.seq_len, MFU_AS[mfu_as].flops)
    if plan.adapters is None:
        return whole
    adapters = dense_flops_per_token(trained_parameters(plan.model, plan.adapters))
    return whole - (BACKWARD - BACKWARD_OF_FROZEN) * plan.model.matmul_parameters + adapters


def counted_peak_flops(plan: JobPlan, mfu_as: str) -> float:
    """FLOP/s of a GPU that the project divides by: always of half precision, or of the precision that runs."""
    own = plan.gpu.tflops("fp8" if plan.fp8 else plan.precision.peak) or 0.0
    half = plan.gpu.matrix_tflops or own
    return 1e12 * (half if MFU_AS[mfu_as].peak == "half" else own)


def refuse_impossible(share: float, mfu_as: str) -> None:
    """Refuse a count by which a job would do more than its GPUs can.

    Raises:
        WrongUsage: the share is above 1.
    """
    if share > 1:
        peak = "the bf16 peak, whatever the job computes in" if MFU_AS[mfu_as].peak == "half" else "the peak"
        why = f"{mfu_as} counts {100 * share:.0f} % of {peak}"
        do = "name the project that printed the throughput, or check model, GPU and throughput"
        raise WrongUsage("an MFU of more than 100 % is impossible", where=f"--mfu-as {mfu_as}", why=why, do=do)
