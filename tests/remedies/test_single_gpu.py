"""Remedies of one GPU, from a trace and its record to the change: it fires, says what to type, and predicts a gain."""

from pathlib import Path
from typing import Any

import pytest
from own_words import called, in_its_words
from remedies import single_gpu_jobs as jobs
from remedies.single_gpu_jobs import CASES, Case, Record, analysed, job, product, recorded

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding
from diagnose.probes.apply.allowed import why_not

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
HEALTHY = ["cpu-healthy.json.gz", "synthetic-compute-bound.json.gz", "synthetic-healthy-8"]
ABOUT_COMPUTE = {"products-limited-by-bf16", "older-flash-kernels"}
each = pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES)


def finding(diagnosis: Diagnosis, rule: str) -> Finding:
    return next(f for f in diagnosis.findings if f.rule == rule)


def fired(diagnosis: Diagnosis) -> set[str]:
    return {f.rule for f in diagnosis.findings}


def because(diagnosis: Diagnosis, what: str) -> str:
    return next(n.because for n in diagnosis.not_advised if n.what == called(diagnosis, what))


@each
def test_the_fault_is_found_with_its_change_and_what_it_buys(name: str, case: Case, tmp_path: Path) -> None:
    answer = analysed(tmp_path, case.faulty, case.record)
    found = finding(answer, name)

    assert found.patch == in_its_words(answer, case.patch)
    assert answer.replay.valid, answer.replay.because
    assert found.predicted_speedup is not None
    low, high = found.predicted_speedup
    assert high is not None
    assert 1.0 <= low <= high
    assert high > 1.01


@each
def test_the_same_job_without_the_fault_is_left_alone(name: str, case: Case, tmp_path: Path) -> None:
    record = case.record if case.healthy_record is None else case.healthy_record

    assert name not in fired(analysed(tmp_path, case.healthy, record))


@each
def test_what_is_typed_can_be_applied(name: str, case: Case) -> None:
    if case.patch is not None:
        assert [why_not(case.patch.target, key, value) for key, value in case.patch.set.items()] == [""] * len(
            case.patch.set
        )


@pytest.mark.long
@pytest.mark.parametrize("sample", HEALTHY)
def test_a_healthy_sample_hears_none_of_them(sample: str) -> None:
    assert fired(analyze(SAMPLES / sample)) & (set(CASES) - ABOUT_COMPUTE) == set()


CASTS = (product(), jobs.weight_cast(300))
NOT_ADVISED: list[tuple[str, str, Any, Record, str]] = [
    ("a V100 has no bf16 units", "bf16", job(product(kernel="volta_sgemm_128x64_nt"), gpu=jobs.V100), {}, "float16"),
    ("bf16 is on", "bf16", job(product(kernel=jobs.TF32)), recorded({"bf16": True}), "bf16 is already on"),
    ("fp16 keeps fp32 weights", "dtype", job(*CASTS), recorded({"fp16": True}), "loss scaling"),
    (
        "attention in fp32",
        "attn_implementation",
        job(product(), jobs.op("aten::_scaled_dot_product_efficient_attention", [jobs.HEADS] * 3, jobs.EFFICIENT, 800,
            dtype="float")),
        {},
        "fp32",
    ),
    (
        "heads of 512",
        "attn_implementation",
        job(product(), jobs.attention("efficient_attention", jobs.EFFICIENT, 800, heads=[8, 4, 1024, 512])),
        {},
        "at most 256",
    ),
    (
        "the compile mode asks for graphs",
        "torch_compile_mode",
        job(jobs.small_kernels()),
        recorded({"torch_compile_mode": "reduce-overhead"}, compiled=True),
        "reduce-overhead already asks for CUDA graphs",
    ),
    (
        "odd sizes that cost nothing",
        "misaligned-products",
        job(product(600, ([4096, 4096], [4096, 4100])), product(600)),
        {},
        "no more than 1.00x as fast",
    ),
    (
        "the loader is slower than the optimizer",
        "gradient_accumulation_steps",
        job(lambda trace: trace.loader(us=3000), product(), jobs.optimizer(600)),
        {},
        "of the step: fewer updates",
    ),
    (
        "a full device needs its cache emptied",
        "torch_empty_cache_steps",
        job(jobs.holds(78), product(), lambda trace: trace.malloc(1500)),
        recorded({"torch_empty_cache_steps": 1}),
        "may not fit",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "trace", "record", "why"), [c[1:] for c in NOT_ADVISED], ids=[c[0] for c in NOT_ADVISED]
)
def test_a_change_that_cannot_help_is_advised_against(
    what: str, trace: Any, record: Record, why: str, tmp_path: Path
) -> None:
    assert why in because(analysed(tmp_path, trace, record), what)


def test_sdpa_is_not_advised_where_it_runs_its_math_path(tmp_path: Path) -> None:
    case = CASES["attention-off-flash-path"]

    answer = analysed(tmp_path, case.faulty, case.record)

    assert "unfused-attention" not in fired(answer)
    assert "mask" in finding(answer, "attention-off-flash-path").says


def test_flash_attention_3_is_for_hopper(tmp_path: Path) -> None:
    trace = job(product(), jobs.attention("flash_attention", jobs.FLASH_2, 600), gpu=jobs.A100)

    assert "older-flash-kernels" not in fired(analysed(tmp_path, trace))


def test_fp8_is_for_ada_and_hopper(tmp_path: Path) -> None:
    trace = job(jobs.op("aten::mm", [jobs.LARGE] * 2, jobs.GEMM, 32_000), gpu=jobs.A100)

    assert "products-limited-by-bf16" not in fired(analysed(tmp_path, trace))


def test_the_vocabulary_is_named(tmp_path: Path) -> None:
    answer = analysed(tmp_path, CASES["misaligned-products"].faulty)

    assert "50,257" in finding(answer, "misaligned-products").says


@pytest.mark.parametrize(
    ("batch", "steps", "gib", "patch"),
    [
        (4, 1, 20, {"per_device_train_batch_size": 15}),  # (71.3 - 1.5) / (20 - 1.5) GiB: 3.77 times
        (4, 4, 20, {"per_device_train_batch_size": 15, "gradient_accumulation_steps": 1}),
        (2, 1, 50, {"per_device_train_batch_size": 2}),
    ],
)
def test_a_larger_batch_fills_nine_tenths_of_the_memory(
    batch: int, steps: int, gib: float, patch: dict[str, int], tmp_path: Path
) -> None:
    """Model states of 1.49 GiB (16 bytes for each of 100 million parameters) do not grow with the batch."""
    arguments = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": steps}
    answer = analysed(
        tmp_path, job(jobs.holds(gib), product(500), jobs.optimizer(200)), recorded(arguments, **jobs.small_model())
    )

    found = [f for f in answer.findings if f.rule == "low-memory-use"]
    if patch["per_device_train_batch_size"] == batch:
        assert found == []
        assert "no room for a further sample" in because(
            answer, "per_device_train_batch_size, gradient_accumulation_steps"
        )
    else:
        assert found[0].patch is not None
        assert found[0].patch.set == patch


def test_accumulation_saves_less_than_a_larger_effective_batch(tmp_path: Path) -> None:
    """Where accumulation is lowered by the same factor, the optimizer runs as often for each token as before."""
    gains = []
    for steps in (1, 4):
        arguments = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": steps}
        trace = job(jobs.holds(15), product(500), jobs.optimizer(300))
        answer = analysed(tmp_path / str(steps), trace, recorded(arguments, **jobs.small_model()))
        gains.append(finding(answer, "low-memory-use").predicted_speedup)

    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0][0] > gains[1][0] + 0.1


def test_an_emptied_cache_is_not_answered_with_expandable_segments(tmp_path: Path) -> None:
    case = CASES["emptied-cache"]

    assert "allocator-churn" not in fired(analysed(tmp_path, case.faulty, case.record))


@pytest.mark.parametrize(("filters", "expected"), [(True, {"logging_nan_inf_filter": False}), (False, None)])
def test_the_loss_filter_is_switched_off_only_where_it_is_on(
    filters: bool, expected: dict[str, bool] | None, tmp_path: Path
) -> None:
    def reads_the_loss(trace: Any) -> None:
        trace.item()
        trace.host(600)

    trace = job(product(), reads_the_loss)
    found = finding(analysed(tmp_path, trace, recorded({"logging_nan_inf_filter": filters})), "sync-every-step")

    assert (found.patch.set if found.patch else None) == expected


@pytest.mark.parametrize(("wait_ms", "said"), [(0, True), (0.3, False)])
def test_reading_the_loss_is_called_harmless_only_where_a_host_that_runs_ahead_would_hide_nothing(
    wait_ms: float, said: bool, tmp_path: Path
) -> None:
    def reads_and_waits(trace: Any) -> None:
        trace.item()
        trace.loader(ms=wait_ms)

    found = analysed(tmp_path, job(product(3000), reads_and_waits))

    assert ("reading the loss less often" in {each.what for each in found.not_advised}) is said


def test_pinned_memory_promises_nothing_of_the_copy_itself_but_may_shorten_it_to_a_fifth(tmp_path: Path) -> None:
    found = analysed(tmp_path, job(lambda trace: trace.copy(20_000_000), product(2000)))  # 10 GB/s: 2 ms of 4

    worst, best = finding(found, "pageable-copies").predicted_speedup or (None, None)
    assert worst == pytest.approx(1.0, abs=0.02)
    assert best == pytest.approx(4.0 / 2.4, rel=0.02)


def test_products_that_mixed_precision_leaves_in_fp32_are_not_told_to_use_it(tmp_path: Path) -> None:
    """One file says that half precision is on; its finding on the rest must not say to switch it on."""
    sgemm = product(600, kernel="ampere_sgemm_128x64_tn")
    mixed, plain = (finding(analysed(tmp_path / n, job(*work)), "fp32-without-tensor-cores").do for n, work in (
        ("mixed", (product(), sgemm)), ("plain", (sgemm,)),
    ))  # fmt: skip

    assert "mixed precision leaves in fp32" in mixed
    assert "bfloat16" not in mixed
    assert "bfloat16" in plain
