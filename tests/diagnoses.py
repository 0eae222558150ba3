"""Hand-built diagnoses for the report and the command line."""

from typing import Any

from msgspec.structs import replace

from diagnose.diagnosis import (
    Diagnosis,
    Evidence,
    Finding,
    LedgerEntry,
    Loss,
    Mfu,
    NotAdvised,
    NotJudged,
    Patch,
    PlanStep,
    RankReport,
    ReplayReport,
    Steps,
    TraceSummary,
    Verdict,
    WaterfallPart,
)
from diagnose.diagnosis.postmortem import Straggler
from diagnose.facts import analysis_option, another_run, capture_setting, nothing_helps
from diagnose.judge.next_change import recommended
from diagnose.judge.waterfall import MatrixTime, waterfall_of

MS = 1_000_000


def ledger(step_ms: float, count: int, **causes: tuple[str, float]) -> tuple[LedgerEntry, ...]:
    """`cause=(class, ms per step)`; the underscores of a cause stand for hyphens."""
    return tuple(
        LedgerEntry(cause=cause.replace("_", "-"), class_=class_, ns=round(ms * count * MS), share=ms / step_ms)  # type: ignore[arg-type]
        for cause, (class_, ms) in causes.items()
    )


def open_question(rule: str, because: str, setting: str) -> NotJudged:
    """A rule that another recording would answer."""
    return replace(NotJudged.lacking(rule, because, capture_setting(setting)), title=f"The step has {rule}")


def verdict(class_: str, **changes: Any) -> Verdict:
    return Verdict(**{"class_": class_, "confidence": "medium", "because": f"the step is {class_}"} | changes)


def steps(step_ms: float, count: int, **changes: Any) -> Steps:
    total = round(step_ms * count * MS)
    return Steps(**{"source": "ProfilerStep", "count": count, "time_ns": total, "device_time_ns": total} | changes)


UNKNOWN_MFU = Mfu(
    value=None,
    reason="the GPU (NVIDIA PG506-230) is not in the table of peaks; pass --peak-tflops and --hbm-gbs",
    numerator="",
    model_flops_per_step=4.2e12,
    peak_flops=None,
    peak_source="",
)
KNOWN_MFU = Mfu(
    value=0.412,
    reason="",
    numerator="FLOPs of matmuls and attention",
    model_flops_per_step=12.9e12,
    peak_flops=312e12,
    peak_source="A100-SXM4-80GB: dense bf16 peak, confidence high",
    peak_device="A100-SXM4-80GB",
    peak_precision="bf16",
)
NO_LOSS = Loss(events=0, bytes=0, truncated=False, kinds=())


def diagnosis(**changes: Any) -> Diagnosis:
    """A healthy compute-bound run, changed as asked."""
    healthy = {
        "verdict": verdict("compute-bound", confidence="high", because="78 % of the device step is compute-bound work"),
        "steps": steps(100, 10),
        "ledger": ledger(
            100,
            10,
            gemm=("compute", 62.0),
            attention=("compute", 16.0),
            elementwise=("memory", 12.0),
            norm=("memory", 7.7),
            dispatch=("host", 1.2),
            python=("host", 0.3),
            launch_latency=("host", 0.3),
            queued_on_idle_device=("unexplained", 0.5),
        ),
        "mfu": KNOWN_MFU,
        "roofline": (),
        "operators": (),
        "findings": (),
        "plan": (),
        "replay": ReplayReport(measured_ns=100 * MS, strict_error=0.004, valid=True, because=""),
        "not_advised": (NotAdvised(what="torch_compile", because="the GPU waits 1.2 % of the step for dispatch"),),
        "not_judged": (),
        "ranks": (),
        "stragglers": (),
        "trace": TraceSummary(files=("trace.json.gz",), events=123_456, bytes=40_000_000, loss=NO_LOSS),
    }
    fields = healthy | changes
    return judged(Diagnosis(**{"waterfall": divided(fields["ledger"], fields["mfu"])} | fields))


def judged(diagnosis: Diagnosis, **changes: Any) -> Diagnosis:
    """The diagnosis changed as asked, with the recommendation that follows."""
    changed = replace(diagnosis, **changes)
    return replace(changed, next=recommended(changed))


def divided(entries: tuple[LedgerEntry, ...], mfu: Mfu) -> tuple[WaterfallPart, ...]:
    """The waterfall of a ledger, with no loss but speed where MFU is known."""
    total = sum(entry.ns for entry in entries)
    return waterfall_of(entries, None if mfu.value is None else MatrixTime(model_ns=mfu.value * total))


def close_call() -> Diagnosis:
    """A run whose waiting for data nearly names its class."""
    entries = ledger(100, 10, gemm=("compute", 74.0), data_wait=("data", 18.5), norm=("memory", 7.5))
    because = "81.5 % of the device step the GPU is busy, most of it with compute-bound kernels"
    near = verdict("compute-bound", between=("compute-bound", "data-bound"), because=because)
    return diagnosis(ledger=entries, verdict=near)


def data_bound() -> Diagnosis:
    """Everything a report can show: two ranks, a plan, a loss, a straggler."""
    entries = ledger(
        174,
        8,
        data_wait=("data", 69.0),
        host_to_device=("data", 4.0),
        gemm=("compute", 40.0),
        conv=("compute", 21.0),
        norm=("memory", 18.0),
        elementwise=("memory", 12.0),
        copy=("memory", 1.4),
        embedding=("memory", 1.3),
        dispatch=("host", 3.3),
        exposed_communication=("communication", 2.0),
        queued_on_idle_device=("unexplained", 2.0),
    )
    return diagnosis(
        verdict=verdict("data-bound", because="42.0 % of the device step waits for data"),
        steps=steps(174, 8, time_ns=8 * 190 * MS),
        ledger=entries,
        mfu=UNKNOWN_MFU,
        findings=(DATA_WAIT, SMALL_BATCH, SLOW_NORM, NO_MEMORY, DAMAGED),
        plan=(
            PlanStep(rule="data-wait", patch=DATA_WAIT.patch, predicted_speedup=(1.0, 1.66)),
            PlanStep(rule="low-memory-use", patch=SMALL_BATCH.patch, predicted_speedup=(1.1, 1.154)),
        ),
        not_advised=(
            NotAdvised(what="attn_implementation", because="attention is 0.0 % of the device step"),
            NotAdvised(what="torch_compile", because="the GPU waits 1.9 % of the device step for dispatch"),
            NotAdvised(what="tf32", because="fp32 products without tensor cores take 0.0 % of the device step"),
            NotAdvised(what="optim", because="the optimizer (fused) takes 0.0 % of the device step"),
            NotAdvised(what="ddp_bucket_cap_mb", because="0.0 % of the collectives carry less than 1 MiB"),
            NotAdvised(what="use_liger_kernel", because="unfused loss takes 0.0 % of the device step"),
        ),
        not_judged=(
            open_question("allocator-churn", "no memory events", "profile_memory=True"),
            open_question("unfused-attention", "no shapes", "record_shapes=True"),
            open_question("near-hardware-peak", "no shapes", "record_shapes=True"),
            NotJudged.lacking(
                "unused-parameter-search",
                "no DistributedDataParallel range in the trace",
                nothing_helps("the model is not wrapped in DDP"),
            ),
        ),
        ranks=tuple(
            RankReport(rank=rank, device="NVIDIA PG506-230", steps=8, verdict=verdict("data-bound"), ledger=entries)
            for rank in (0, 1)
        ),
        stragglers=(Straggler(rank=1, cause="data", waiting_ns_caused=96 * MS),),
        trace=TraceSummary(
            files=("rank0.json.gz", "rank1.json.gz"),
            events=1_234_567,
            bytes=400_000_000,
            loss=Loss(events=1234, bytes=5_000_000, truncated=True, kinds=("cut inside an event",)),
        ),
    )


DATA_WAIT = Finding(
    rule="data-wait",
    class_="data",
    severity="critical",
    says="The GPU waits for the next batch during 39.7 % of the device step.",
    do="Raise the number of DataLoader workers until the wait is gone or the cores are busy.",
    evidence=(
        Evidence(fact="has_gpu", value=True, unit="flag"),
        Evidence(fact="data_wait_share", value=0.3966, unit="share", of="the device step"),
        Evidence(fact="loader_workers", value="none", unit="text"),
    ),
    predicted_speedup=(1.0, 1.66),
    patch=Patch(target="training_arguments", set={"dataloader_num_workers": 8, "dataloader_pin_memory": True}),
    action="set dataloader_num_workers=8, dataloader_pin_memory=True",
)
SMALL_BATCH = Finding(
    rule="low-memory-use",
    class_="capacity",
    severity="info",
    says="64.0 % of device memory was never reserved.",
    do="Raise the batch per device.",
    evidence=(Evidence(fact="memory_free_share", value=0.64, unit="share", of="device memory"),),
    predicted_speedup=(1.1, 1.154),
    patch=Patch(target="training_arguments", set={"per_device_train_batch_size": 14}),
    action="set per_device_train_batch_size=14",
)


SLOW_NORM = Finding(
    rule="unfused-norm",
    class_="memory",
    severity="info",
    says="Normalisation layers composed of small kernels take 1.9 % of the device step.",
    do="Fuse them.",
    evidence=(Evidence(fact="unfused_norm_share", value=0.019, unit="share", of="the device step"),),
    predicted_speedup=(1.0, 1.019),
    patch=None,
)
NO_MEMORY = Finding(
    rule="near-out-of-memory",
    class_="capacity",
    severity="warning",
    says="The peak of 79.2 GiB is 99.0 % of device memory. The next longer batch ends the run.",
    action="make room in device memory",
    do="Lower the batch per device, or recompute activations.",
    evidence=(),
    predicted_speedup=None,
    patch=None,
)
DAMAGED = Finding(
    rule="damaged-trace",
    class_="validity",
    severity="warning",
    says="1.2 % of the bytes that are there could not be read. What they held is in no number here.",
    do="Capture again and let the job write the trace to its end.",
    evidence=(Evidence(fact="trace_loss_share", value=0.0125, unit="share", of="the bytes of the trace"),),
    predicted_speedup=None,
    patch=None,
)


def hostile() -> Diagnosis:
    """Names that try to drive the terminal, in every place a name can come from."""
    bad = "[red]x[/red]\x1b[31m\nline two \u202e" + "long" * 60
    finding = Finding(
        rule=bad,
        class_="host",
        severity="warning",
        says=bad,
        action=bad,
        do=bad,
        evidence=(Evidence(fact=bad, value=bad, unit="text", of=bad),),
        predicted_speedup=None,
        patch=Patch(target="environment", set={bad: bad}),
    )
    return diagnosis(
        verdict=verdict("undecided", because=bad, confidence="low"),
        steps=steps(100, 3, source=bad, device_time_ns=None),
        ledger=ledger(100, 3, **{bad: ("host", 100.0)}),
        mfu=Mfu(value=0.1, reason="", numerator=bad, model_flops_per_step=1.0, peak_flops=1.0, peak_source=bad),
        findings=(finding, finding),
        not_advised=(NotAdvised(what=bad, because=bad),),
        not_judged=(NotJudged.lacking(bad, bad, another_run(bad)),),
        ranks=tuple(RankReport(rank=rank, device=bad, verdict=verdict("undecided"), ledger=()) for rank in range(20)),
        trace=TraceSummary(
            files=(bad,), events=1, bytes=10, loss=Loss(events=1, bytes=1, truncated=True, kinds=(bad,))
        ),
    )


def undecided() -> Diagnosis:
    """A CPU-only window that nothing explains."""
    return diagnosis(
        verdict=verdict("undecided", confidence="low", because="30.0 % of the host step is unexplained"),
        steps=steps(0.8, 1, source="window", device_time_ns=None),
        ledger=ledger(0.8, 1, queued_on_idle_device=("unexplained", 0.24), dispatch=("host", 0.56)),
        mfu=UNKNOWN_MFU,
        not_judged=(NotJudged.lacking("straggler", "one rank only", analysis_option("the other ranks' traces")),),
    )
