"""Jobs on one GPU with a single fault, their capture records, and the cases that rules are tried on."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysed import ADD, FOREACH, FUSED, GEMM, SOFTMAX
from embedding_jobs import dense_gradient, lookups
from expert_jobs import grouped, one_by_one
from kineto import COMPUTE, COPY, Trace
from kineto_host import BF16

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Patch

Work = Callable[[Trace], object]
Record = Mapping[str, Any]

H100, A100, V100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"
GIB = 1 << 30
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas"
CONVOLUTION = "volta_scudnn_128x128_stridedB_splitK_medium_nn_v1"
TO_CHANNELS_LAST = "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>(float)"
UNPACK = "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*, unsigned char*, float*, __nv_bfloat16*)"
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
EFFICIENT = "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)"
FLASH_2 = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
FLASH_3 = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloop>>>"
TRITON = "triton_poi_fused_add_mul_0"
HIDDEN, HEADS, SCORES = [8, 512, 768], [8, 16, 1024, 64], [8, 16, 1024, 1024]
SMALL = ([512, 1024], [1024, 1024])
WEIGHT, VOCABULARY, PADDED, LARGE = [4096, 4096], [768, 50_257], [768, 50_304], [16_384, 16_384]


def job(*work: Work, gpu: str = H100, count: int = 5) -> Trace:
    """Steps that all do the work."""
    trace = Trace(gpu=gpu)
    for _ in range(count):
        with trace.step():
            for part in work:
                part(trace)
    return trace


def op(name: str, dims: Any, kernel: str, us: float, **how: Any) -> Work:
    """An operator that launches one kernel."""
    return lambda trace: trace.op(name, dims, kernel, us, **how)


def analysed(folder: Path, trace: Trace, record: Record | None = None) -> Diagnosis:
    """The answer to the trace and the record beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    trace.write(folder / "rank0.json")
    if record:
        (folder / "capture-rank0.json").write_text(json.dumps(record), encoding="utf-8")
    return analyze(folder)


def to_host(size: int) -> Work:
    return lambda trace: trace.copy(size, "DtoH")


def unpacked(us: float) -> Work:
    """Weights that are unpacked by a kernel of no operator, as bitsandbytes does."""
    return lambda trace: trace.launch(UNPACK, us)


def training(**values: Any) -> Patch:
    """A patch of the Trainer's arguments."""
    return Patch(target="training_arguments", set=values)


def model(**values: Any) -> Patch:
    """A patch of the model's arguments."""
    return Patch(target="model_kwargs", set=values)


def product(us: float = 1000, dims: Sequence[Sequence[int]] = (WEIGHT, WEIGHT), kernel: str = GEMM) -> Work:
    """A product far longer than its launch."""
    return op("aten::mm", [list(d) for d in dims], kernel, us)


def weight_cast(us: float, dims: Sequence[int] = WEIGHT) -> Work:
    """A weight cast to bf16, as autocast does it."""

    def work(trace: Trace) -> None:
        trace.op("aten::copy_", [list(dims), list(dims), []], CAST, us)
        event = [e for e in trace._events if e.get("name") == "aten::copy_"][-1]
        event["args"]["Input type"] = [BF16, "float", "Scalar"]

    return work


def attention(name: str, kernel: str, us: float, mask: Sequence[int] = (), heads: Sequence[int] = HEADS) -> Work:
    """A call of fused attention; an empty mask is none."""
    return op(f"aten::_scaled_dot_product_{name}", [list(heads)] * 3 + [list(mask)], kernel, us)


def math_attention(us: float) -> Work:
    """The math path with a mask: products and softmax over the scores."""

    def work(trace: Trace) -> None:
        with trace.inside("aten::_scaled_dot_product_attention_math", [HEADS, HEADS, HEADS, SCORES]):
            trace.op("aten::bmm", [[128, 1024, 64], [128, 64, 1024]], GEMM, us / 4)
            trace.op("aten::_softmax", [SCORES, [], []], SOFTMAX, us / 2)
            trace.op("aten::bmm", [[128, 1024, 1024], [128, 1024, 64]], GEMM, us / 4)

    return work


def small_kernels(kernel: str = TRITON, count: int = 300) -> Work:
    """Kernels that are shorter than their launches."""
    return lambda trace: [trace.op("aten::add", None, kernel, 2) for _ in range(count)]


def recomputing(us: float) -> Work:
    """A backward pass that runs a forward operator again."""

    def work(trace: Trace) -> None:
        with trace.backward():
            with trace.inside("aten::linear", [WEIGHT, WEIGHT]):
                trace.op("aten::mm", [WEIGHT, WEIGHT], GEMM, us)
            trace.op("aten::mm", [WEIGHT, WEIGHT], GEMM, 2 * us)

    return work


def optimizer(us: float, kernel: str = FUSED) -> Work:
    """An optimizer step of one kernel."""

    def work(trace: Trace) -> None:
        with trace.optimizer():
            trace.op("aten::_fused_adamw_", kernel=kernel, gpu_us=us, host_us=2)

    return work


def holds(gib: float) -> Work:
    """The allocator holds so much device memory."""
    return lambda trace: trace.memory(1024, allocated=round(gib * GIB), reserved=round(gib * GIB))


def loads(us: float, late_us: float, each: int = 4) -> Work:
    """Batches of which some are late: each fourth, as one of four workers that began together, or fewer."""

    def work(trace: Trace) -> None:
        trace.loader(us=late_us if trace.next_step % each == 0 else us, workers=4)

    return work


def tokenises(us: float) -> Work:
    """A collator that tokenises, as a capture with stacks names it."""
    return lambda trace: trace.event(
        "python_function", "transformers/tokenization_utils_base.py(2800): _batch_encode", us
    )


def copies(stream: int) -> Work:
    """A batch of 25 MB from pinned memory: 500 us."""
    return lambda trace: trace.copy(25_000_000, pinned=True, stream=stream)


def rotation(us: float) -> Work:
    """Rotary embeddings of the queries."""

    def work(trace: Trace) -> None:
        for name in ("mul", "neg", "cat", "mul", "add"):
            trace.op(f"aten::{name}", [HIDDEN, HIDDEN], ADD, us / 5)

    return work


def recorded(arguments: Record | None = None, **more: Any) -> dict[str, Any]:
    """A capture record with these training arguments and parts."""
    return {"training_arguments": dict(arguments or {}), **more}


def small_model(**settings: Any) -> dict[str, Any]:
    """The record of a model of 100 million parameters in fp32."""
    sizes = {"parameters": 100_000_000, "trainable": 100_000_000, "dtypes": {"float32": 100_000_000}}
    return {"model": sizes | settings, "optimizer": {"class": "AdamW"}}


@dataclass(frozen=True)
class Case:
    """A job with the fault of the rule of its name, the same job without it, and what is to be typed."""

    faulty: Trace
    healthy: Trace
    record: Record = field(default_factory=dict)
    healthy_record: Record | None = None
    patch: Patch | None = None


BATCHED = recorded({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}, **small_model())
FAST = (op("aten::mm", [LARGE, LARGE], GEMM, 11_200),)
CASES = {
    "exposed-copies": Case(job(product(), copies(COMPUTE)), job(product(), copies(COPY))),
    "exposed-copies-to-host": Case(job(product(), to_host(5 << 20)), job(product(), to_host(4))),
    "dense-embedding-gradients": Case(job(product(), dense_gradient(1_000_000)), job(product(), dense_gradient(4096))),
    "experts-one-by-one": Case(job(product(), one_by_one()), job(product(), grouped())),
    "channels-moved-for-convolutions": Case(
        job(product(), op("aten::cudnn_convolution", None, TO_CHANNELS_LAST, 400)),
        job(product(), op("aten::cudnn_convolution", None, CONVOLUTION, 400)),
    ),
    "weights-unpacked-for-products": Case(job(product(), unpacked(500)), job(product(), unpacked(20))),
    "embeddings-one-by-one": Case(job(product(), lookups(26)), job(product(), lookups(2))),
    "products-in-single-precision": Case(
        job(product(kernel=TF32), gpu=A100), job(product(), gpu=A100), patch=training(bf16=True)
    ),
    "idle-fp16-tensor-cores": Case(
        job(product(kernel="volta_sgemm_128x64_nt"), op("aten::conv2d", None, CONVOLUTION, 500), gpu=V100),
        job(product(kernel="volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"), gpu=V100),
        patch=training(fp16=True),
    ),
    "weight-casts": Case(
        job(product(), weight_cast(300), optimizer(200)),
        job(product(), weight_cast(300, HIDDEN[1:]), optimizer(200)),
        recorded({"bf16": True}, **small_model()),
        patch=model(dtype="bfloat16"),
    ),
    "attention-off-flash-path": Case(
        job(product(), math_attention(800)),
        job(product(), attention("flash_attention", FLASH_3, 100)),
        recorded(versions={"flash_attn": "2.8.3"}, model={"attn_implementation": "sdpa", "dtypes": {"bfloat16": 1}}),
        patch=model(attn_implementation="flash_attention_2"),
    ),
    "older-flash-kernels": Case(
        job(product(), attention("flash_attention", FLASH_2, 600)),
        job(product(), attention("flash_attention", FLASH_3, 600)),
        recorded(model={"attn_implementation": "sdpa"}),
        patch=model(attn_implementation="flash_attention_3"),
    ),
    "launches-one-by-one": Case(
        job(small_kernels()),
        job(product(kernel=GEMM), op("aten::add", None, TRITON, 100)),
        recorded({"torch_compile_mode": None}, compiled=True),
        patch=training(torch_compile_mode="reduce-overhead"),
    ),
    "products-limited-by-bf16": Case(job(*FAST), job(*[op("aten::mm", SMALL, GEMM, 5)] * 20)),
    "misaligned-products": Case(
        job(product(1500, ([8192, 768], VOCABULARY)), product(200)),
        job(product(900, ([8192, 768], PADDED)), product(200)),
    ),
    "needless-recomputation": Case(
        job(holds(20), product(), recomputing(500)),
        job(holds(20), product()),
        recorded(model={"gradient_checkpointing": True}),
        patch=training(gradient_checkpointing=False),
    ),
    "optimizer-for-few-tokens": Case(
        job(product(), optimizer(400)),
        job(product(), optimizer(50)),
        recorded({"gradient_accumulation_steps": 2}),
        patch=training(gradient_accumulation_steps=8),
    ),
    "emptied-cache": Case(
        job(product(), lambda trace: trace.malloc(1500)),
        job(product()),
        recorded({"torch_empty_cache_steps": 1}),
        patch=training(torch_empty_cache_steps=1_000_000),
    ),
    "bursts-of-data-wait": Case(
        job(loads(10, 2400, each=16), product(), lambda trace: trace.sync(), count=33),
        job(loads(400, 400), product(300), count=10),
        {"dataloader": {"num_workers": 4, "prefetch_factor": 2, "persistent_workers": False}},
        patch=training(dataloader_prefetch_factor=4, dataloader_persistent_workers=True),
    ),
    "text-work-in-the-loop": Case(
        job(product(), tokenises(1500)),
        job(product(), tokenises(10)),
        {"dataloader": {"num_workers": 0}},
        patch=training(dataloader_num_workers=2, dataloader_persistent_workers=True),
    ),
    "unfused-rope": Case(
        job(product(), rotation(300)), job(product(), rotation(5)), patch=training(use_liger_kernel=True)
    ),
    "small-micro-batches": Case(
        job(holds(8), small_kernels()),
        job(holds(8), product(2000)),
        recorded({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8}, **small_model()),
        patch=training(per_device_train_batch_size=8, gradient_accumulation_steps=1),
    ),
    "low-memory-use": Case(
        job(holds(20), product(500), optimizer(200, FOREACH)),
        job(holds(70), product(500), optimizer(200, FOREACH)),
        BATCHED,
        patch=training(per_device_train_batch_size=15, gradient_accumulation_steps=1),
    ),
}
