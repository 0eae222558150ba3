"""The answer of `diagnose hardware`."""

from collections.abc import Iterable

import msgspec

from diagnose.commands.hardware.devices import device_of
from diagnose.diagnosis.answer import Answer
from diagnose.hardware import Gpu


class KnownDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU. Rates have their units in the names; null is unknown, or a unit the device lacks."""

    key: str
    names: tuple[str, ...]
    names_are_prefixes: bool
    architecture: str
    compute_capability: str
    multiprocessors: int | None
    memory_gb: tuple[float, ...]
    bf16_dense_tflops: float | None
    fp16_dense_tflops: float | None
    tf32_dense_tflops: float | None
    fp32_dense_tflops: float | None
    fp8_dense_tflops: float | None
    hbm_gbs: float | None
    ridge_flops_per_byte: float | None
    nvlink_one_way_gbs: float | None
    tdp_w: float | None
    achievable_matrix_tflops: float | None
    achievable_matrix_source: str
    achievable_hbm_gbs: float | None
    achievable_hbm_source: str
    confidence: str
    source: str
    notes: str


class Devices(Answer, frozen=True, kw_only=True):
    """The known GPUs that were asked for."""

    indented = 0
    schema_version: int = 1
    devices: tuple[KnownDevice, ...]


def devices(gpus: Iterable[Gpu]) -> Devices:
    """The answer for these boards."""
    return Devices(devices=tuple(map(_known, gpus)))


def _known(gpu: Gpu) -> KnownDevice:
    device = device_of(gpu)
    products, memory = device.achievable_matrix_flops, device.achievable_hbm_bytes_per_s
    return KnownDevice(
        key=gpu.key,
        names=gpu.names,
        names_are_prefixes=gpu.prefix,
        architecture=gpu.arch,
        compute_capability=gpu.compute_capability,
        multiprocessors=gpu.sms,
        memory_gb=gpu.memory_gb,
        bf16_dense_tflops=gpu.bf16_tflops,
        fp16_dense_tflops=gpu.fp16_tflops,
        tf32_dense_tflops=gpu.tf32_tflops,
        fp32_dense_tflops=gpu.fp32_tflops,
        fp8_dense_tflops=gpu.fp8_tflops,
        hbm_gbs=gpu.hbm_gbs,
        ridge_flops_per_byte=device.ridge(gpu.matrix_dtype),
        nvlink_one_way_gbs=gpu.nvlink_one_way_gbs,
        tdp_w=gpu.tdp_w,
        achievable_matrix_tflops=None if products is None else products / 1e12,
        achievable_matrix_source=device.achievable_matrix_flops_source,
        achievable_hbm_gbs=None if memory is None else memory / 1e9,
        achievable_hbm_source=device.achievable_hbm_bytes_per_s_source,
        confidence=gpu.confidence,
        source=gpu.source,
        notes=gpu.notes,
    )
