"""What the remedies of one GPU rest on, measured."""

from typing import Any

import pytest
from analysed import GEMM, facts
from kineto import Trace
from remedies import single_gpu_jobs as jobs
from remedies.single_gpu_jobs import HEADS, SCORES, WEIGHT, job, product

from diagnose.facts import Scalar, Unknown


def value(trace: Trace, name: str) -> Scalar | Unknown:
    return facts(trace)[name].value


def test_a_weight_that_is_cast_counts_and_cast_logits_do_not() -> None:
    """Logits have the size of the left operand of the product that computes the gradient of the hidden states."""
    logits, weight = [2048, 32_000], [32_000, 768]
    gradient = jobs.op("aten::mm", [logits, weight], GEMM, 600)

    found = job(gradient, jobs.weight_cast(200, logits), jobs.weight_cast(200, weight))

    assert value(found, "weight_cast_share") == pytest.approx(0.2, abs=0.01)


def test_weights_are_those_of_linear_layers_where_those_are_recorded() -> None:
    def linear(trace: Trace) -> None:
        with trace.inside("aten::linear", [[8, 256, 768], [1024, 768]]):
            trace.op("aten::mm", [[2048, 768], [768, 1024]], GEMM, 800)

    activations, weights = jobs.weight_cast(200, [768, 2048]), jobs.weight_cast(200, [1024, 768])

    assert value(job(linear, activations), "weight_cast_share") == 0
    assert value(job(linear, weights), "weight_cast_share") == pytest.approx(0.2, abs=0.01)


def test_a_copy_in_one_precision_is_no_cast() -> None:
    assert value(job(product(), jobs.op("aten::copy_", [WEIGHT, WEIGHT, []], jobs.CAST, 500)), "weight_cast_share") == 0


@pytest.mark.parametrize(
    ("name", "heads", "mask", "dtype", "expected"),
    [
        ("efficient_attention", HEADS, [], "c10::BFloat16", "nothing"),
        ("efficient_attention", HEADS, SCORES, "c10::BFloat16", "mask"),
        ("attention_math", HEADS, SCORES, "c10::Half", "mask"),
        ("efficient_attention", [8, 4, 1024, 512], [], "c10::Half", "head size"),
        ("efficient_attention", HEADS, SCORES, "float", "fp32"),
    ],
)
def test_what_keeps_attention_off_flash_kernels(
    name: str, heads: list[int], mask: list[int], dtype: str, expected: str
) -> None:
    found = jobs.op(f"aten::_scaled_dot_product_{name}", [heads] * 3 + [mask], jobs.EFFICIENT, 100, dtype=dtype)

    assert value(job(found), "flash_blocked_by") == expected
    assert value(job(found, gpu=jobs.V100), "flash_blocked_by") == "old GPU"


def test_nothing_is_kept_off_flash_kernels_that_run() -> None:
    found = value(job(jobs.attention("flash_attention", jobs.FLASH_2, 100)), "flash_blocked_by")

    assert isinstance(found, Unknown)


def test_flash_2_is_told_from_flash_3_by_its_kernels() -> None:
    def share(kernel: str) -> Scalar | Unknown:
        return value(job(product(500), jobs.attention("flash_attention", kernel, 500)), "flash_2_share")

    assert share(jobs.FLASH_2) == pytest.approx(0.5, abs=0.01)
    assert share("void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)") == pytest.approx(
        0.5, abs=0.01
    )
    assert share(jobs.FLASH_3) == 0
    assert share("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7") == 0


def test_the_misaligned_size_with_most_time_is_named() -> None:
    found = job(product(500, ([4096, 4096], [4096, 50_257])), product(100, ([4096, 4099], [4099, 4096])))

    assert value(found, "misaligned_size") == 50_257
    assert value(found, "misaligned_product_share") == pytest.approx(1, abs=0.02)


TOKENS, INPUTS, OUTPUTS = 788, 768, 3072  # 4 images of 197 patches


def layer(inputs: int, outputs: int) -> tuple[Any, Any, Any]:
    """A linear layer's products: forward, the gradient of its input and that of its weight."""
    forward = product(500, ([TOKENS, inputs], [inputs, outputs]))
    return (
        forward,
        product(500, ([TOKENS, outputs], [outputs, inputs])),
        product(500, ([inputs, TOKENS], [TOKENS, outputs])),
    )


def test_the_number_of_tokens_is_no_size_to_pad() -> None:
    inference, training = job(layer(INPUTS, OUTPUTS)[0]), job(*layer(INPUTS, OUTPUTS))

    assert value(inference, "misaligned_product_share") == 0
    assert value(training, "misaligned_product_share") == 0


def test_a_vocabulary_is_one_in_all_three_products_of_its_layer() -> None:
    found = job(*layer(INPUTS, 50_257))

    assert value(found, "misaligned_size") == 50_257
    assert value(found, "misaligned_product_share") == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("columns", [10, 63, 4096])
def test_small_and_aligned_sizes_are_no_matter(columns: int) -> None:
    assert value(job(product(500, ([4096, 4096], [4096, columns]))), "misaligned_product_share") == 0


def test_misaligned_products_are_compared_with_aligned_ones_of_like_size() -> None:
    small = product(1000, ([64, 64], [64, 64]))
    found = job(product(300, ([4096, 4096], [4096, 4100])), product(150), small)

    assert value(found, "misaligned_slowdown_factor") == pytest.approx(2, rel=0.01)
    assert isinstance(
        value(job(product(300, ([4096, 4096], [4096, 4100])), small), "misaligned_slowdown_factor"), Unknown
    )


def test_what_runs_forward_inside_the_backward_pass_is_recomputed() -> None:
    found = job(product(500), jobs.recomputing(500))  # 500 forward, 500 again, 1000 backward

    assert value(found, "recompute_share") == pytest.approx(0.25, abs=0.01)


def test_a_reentrant_checkpoint_runs_forward_until_it_calls_the_backward_pass() -> None:
    def backward(trace: Trace) -> None:
        with trace.backward("autograd::engine::evaluate_function: CheckpointFunctionBackward"):
            trace.op("aten::mm", [WEIGHT, WEIGHT], GEMM, 500)
            with trace.inside("autograd::engine::evaluate_function: MmBackward0"):
                trace.op("aten::mm", [WEIGHT, WEIGHT], GEMM, 1000)

    assert value(job(product(500), backward), "recompute_share") == pytest.approx(0.25, abs=0.01)


def test_stacks_name_the_recomputation() -> None:
    def recomputes(trace: Trace) -> None:
        with trace.backward():
            event = trace.event("python_function", "torch/utils/checkpoint.py(1500): recompute_fn", 0)
            trace.op("aten::mul", [WEIGHT], jobs.ADD, 500)
            event["dur"] = 8  # us: the first launch is inside, the second is not
            trace.op("aten::mm", [WEIGHT, WEIGHT], GEMM, 500)

    assert value(job(recomputes), "recompute_share") == pytest.approx(0.5, abs=0.02)


def test_a_backward_pass_that_repeats_nothing() -> None:
    def backward(trace: Trace) -> None:
        with trace.backward():
            trace.op("aten::mm", [WEIGHT, WEIGHT], GEMM, 500)

    assert value(job(backward), "recompute_share") == 0
    assert isinstance(value(job(product()), "recompute_share"), Unknown)


@pytest.mark.parametrize(("update_us", "pays"), [(100, False), (800, True)])
def test_recomputation_pays_where_most_of_a_step_does_not_grow(update_us: float, pays: bool) -> None:
    """a (1/1 - 1/4) > b/3: with a step of 1000 us + the update, from 308 us of it on."""
    found = job(jobs.holds(20), product(1000), jobs.optimizer(update_us))

    assert value(found, "fixed_share") == pytest.approx(update_us / (1000 + update_us), abs=0.02)
    assert value(found, "recompute_pays_off") is pays


def test_all_memory_is_taken_to_grow_where_the_model_is_not_known() -> None:
    assert value(job(jobs.holds(35.6), product()), "larger_batch_factor") == pytest.approx(2.0, abs=0.01)
    assert value(job(jobs.holds(2), product()), "larger_batch_factor") == 4
    assert value(job(jobs.holds(78), product()), "larger_batch_factor") == 1
    assert isinstance(value(job(product()), "larger_batch_factor"), Unknown)


def test_bursts_are_the_longest_wait_over_the_mean_one() -> None:
    even = value(job(jobs.loads(2000, 2000), product(), count=9), "data_wait_burst_factor")
    odd = value(job(jobs.loads(10, 4000), product(), count=9), "data_wait_burst_factor")

    assert even == pytest.approx(1, abs=0.05)
    assert isinstance(odd, float)
    assert odd > 3


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("transformers/tokenization_utils_fast.py(487): _batch_encode_plus", 0.5),
        ("torch/utils/data/_utils/collate.py(352): default_collate", 0.5),
        ("/opt/conda/lib/python3.11/site-packages/transformers/tokenization_utils.py(1): tokenize", 0.5),
        ("src/data.py(10): tokenize", 0.5),
        ("tokenize.py(600): _tokenize", 0),
        ("/usr/lib/python3.10/tokenize.py(406): tokenize", 0),
        ("packaging/_tokenizer.py(120): check", 0),
        ("nn.Module: TokenizerFreeEncoder_0", 0),
        ("train.py(10): main", 0),
    ],
)
def test_text_work_is_told_by_the_names_of_functions(name: str, share: float) -> None:
    def work(trace: Any) -> None:
        trace.sync()
        trace.event("python_function", name, 900)

    assert value(job(product(900), work), "text_work_share") == pytest.approx(share, abs=0.03)
    assert isinstance(value(job(product()), "text_work_share"), Unknown)


def test_what_an_import_runs_is_no_text_work() -> None:
    def imports(trace: Any) -> None:
        trace.sync()
        trace.event("python_function", "<frozen importlib._bootstrap>(1027): _find_and_load", 900)
        trace.now -= 900_000
        trace.event("python_function", "transformers/tokenization_utils.py(1): <module>", 900)

    assert value(job(product(900), imports), "text_work_share") == 0


def test_rotations_are_mul_neg_cat_mul_add() -> None:
    assert value(job(product(500), jobs.rotation(500)), "unfused_rope_share") == pytest.approx(0.5, abs=0.02)
    assert value(job(product(500), jobs.op("aten::cat", None, jobs.ADD, 500)), "unfused_rope_share") == 0


def test_convolutions_in_fp32_are_told_by_name() -> None:
    def share(kernel: str) -> Scalar | Unknown:
        return value(job(product(500), jobs.op("aten::conv2d", None, kernel, 500)), "fp32_convolution_share")

    assert share(jobs.CONVOLUTION) == pytest.approx(0.5, abs=0.02)
    assert share("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)") == pytest.approx(
        0.5, abs=0.02
    )
    assert share("sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64") == 0
    assert share("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16") == 0
