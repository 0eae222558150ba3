"""Bytes of number types: of each weight, gradient and optimizer state, and of an activation."""

from dataclasses import dataclass
from typing import TypeVar

from diagnose.errors import WrongUsage

T = TypeVar("T")


@dataclass(frozen=True)
class PrecisionBytes:
    """Bytes of each value.

    Attributes:
        weight_bytes: of a parameter that the model holds.
        compute_bytes: of an activation, and of a weight as the matrix products read it.
        gradient_bytes: of a gradient that is kept until the optimizer's step.
        master_bytes: of the optimizer's own copy of a parameter; 0 when it has none.
        state_bytes: of a moment of an optimizer that keeps its moments in the type of what it updates.
        peak: the unit whose peak bounds its matrix products, as the table of GPUs names it.
    """

    weight_bytes: int
    compute_bytes: int
    gradient_bytes: int
    master_bytes: int
    state_bytes: int
    peak: str

    @property
    def is_autocast(self) -> bool:
        """Whether weights are cast for each use: the model holds wider ones than it computes with."""
        return self.weight_bytes > self.compute_bytes


PRECISIONS = {
    "fp32": PrecisionBytes(4, 4, 4, 0, 4, "fp32"),
    "tf32": PrecisionBytes(4, 4, 4, 0, 4, "tf32"),
    "bf16-mixed": PrecisionBytes(4, 2, 4, 0, 4, "bf16"),
    "fp16-mixed": PrecisionBytes(4, 2, 4, 0, 4, "fp16"),
    "bf16": PrecisionBytes(2, 2, 2, 0, 2, "bf16"),
    "fp16": PrecisionBytes(2, 2, 2, 0, 2, "fp16"),
    "bf16-master": PrecisionBytes(2, 2, 2, 4, 4, "bf16"),
    "fp16-master": PrecisionBytes(2, 2, 2, 4, 4, "fp16"),
    "bf16-master-fp32-grads": PrecisionBytes(2, 2, 4, 4, 4, "bf16"),
}
"""By name. "bf16" holds everything in bf16; "-mixed" is autocast over fp32 weights; "-master" computes with 16-bit
weights and updates fp32 copies (DeepSpeed); with "-fp32-grads" gradients are summed up in fp32 (Megatron, nanotron)."""


@dataclass(frozen=True)
class Optimizer:
    """The states that an optimizer keeps per parameter.

    Attributes:
        moments: number of values in the type of the updated weights.
        fixed_bytes: bytes per parameter whatever that type is; those of 8-bit moments include their scales.
        factored: whether the second moment of a matrix is stored as a row and a column.
    """

    moments: int
    fixed_bytes: float = 0.0
    factored: bool = False

    def state_bytes(self, precision: PrecisionBytes, factored_share: float) -> float:
        """Bytes of optimizer state of each parameter.

        Args:
            precision: of what it updates.
            factored_share: values of a factored moment over parameters; the rows and columns are fp32.
        """
        factored = _FACTORED_BYTES * factored_share if self.factored else 0.0
        return self.moments * precision.state_bytes + self.fixed_bytes + factored


_FACTORED_BYTES = 4
_BLOCK_OF_8_BIT = 256
_8_BIT = 1 + 4 / _BLOCK_OF_8_BIT
OPTIMIZERS = {
    "adamw": Optimizer(2),
    "adamw-8bit": Optimizer(0, 2 * _8_BIT),
    "lion": Optimizer(1),
    "lion-8bit": Optimizer(0, _8_BIT),
    "sgd": Optimizer(0),
    "sgd-momentum": Optimizer(1),
    "adafactor": Optimizer(0, factored=True),
}
"""By name. 8-bit: a byte for each value of a moment and an fp32 scale for each block (Dettmers et al. 2022, as
bitsandbytes has it). Adafactor without a first moment (Shazeer and Stern 2018), as transformers sets it up."""


def precision_of(name: str) -> PrecisionBytes:
    """The precision of that name.

    Raises:
        UserError: it is none of `PRECISIONS`.
    """
    return _one_of("precision", name, PRECISIONS)


def optimizer_of(name: str) -> Optimizer:
    """The optimizer of that name.

    Raises:
        UserError: it is none of `OPTIMIZERS`.
    """
    return _one_of("optimizer", name, OPTIMIZERS)


def _one_of(kind: str, name: str, table: dict[str, T]) -> T:
    if name not in table:
        raise WrongUsage(f"no such {kind}", where=name, do=f"use one of {', '.join(table)}")
    return table[name]
