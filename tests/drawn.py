"""Diagnoses with everything a page draws: a timeline, kernels, roofs; and one whose every name attacks the page."""

import diagnoses
from msgspec.structs import replace

from diagnose.diagnosis import (
    CodeLine,
    Diagnosis,
    Evidence,
    Finding,
    HistoryChange,
    JobStep,
    JobTimeline,
    KernelRow,
    Lane,
    Meeting,
    OperatorRow,
    Patch,
    Peak,
    RangeRow,
    RankRow,
    RooflineEntry,
    Roofs,
    SliceLabel,
    StepTimeline,
    UserCode,
    UserFunction,
    WindowReport,
)
from diagnose.diagnosis.postmortem import Clock, Excess, JobChange, Mismatch, Postmortem, Straggler, Traffic

US, MS = 1_000, 1_000_000
HOSTILE = "</script></style><img src=x onerror=alert(1)>\"'`{{7*7}}\u202e\u0000[red]&amp;\u2028"


def lane(name: str, kind: str, *slices: tuple[float, float, int, int]) -> Lane:
    """Slices as (start in ms, length in ms, label, count)."""
    start, length, label, count = zip(*slices, strict=True)
    ns = [tuple(round(ms * MS) for ms in times) for times in (start, length)]
    return Lane(name=name, kind=kind, start_ns=ns[0], length_ns=ns[1], label=label, count=count)  # type: ignore[arg-type]


def timeline(gemm: str = "nvjet_tst_128x256") -> StepTimeline:
    """A wait for data, then a kernel, then seven short ones in one slice."""
    labels = (("data-wait", "data"), (gemm, "compute"), ("dispatch", "host"), ("aten::mm", ""))
    return StepTimeline(
        rank=0,
        step=12,
        length_ns=174 * MS,
        labels=tuple(SliceLabel(name=name, class_=class_) for name, class_ in labels),  # type: ignore[arg-type]
        lanes=(
            lane("idle and waiting", "cause", (0, 69, 0, 1), (150, 24, 2, 1)),
            lane("stream 7", "stream", (69, 60, 1, 1), (130, 20, 1, 7)),
            lane("thread 4000", "thread", (65, 4, 3, 1)),
        ),
        merged_below_ns=9 * US,
    )


def rank_row(rank: int, start: float, waits: float, lanes: tuple[Lane, ...] = (), **changes: object) -> RankRow:
    """A step of 100 ms that begins at `start` ms: data, then a wait of `waits` ms, then a product."""
    end = 100 - waits
    causes = lane(f"rank {rank}", "rank", (0, 30, 0, 1), (30, waits, 1, 1), (30 + waits, end - 30, 2, 3))
    by_cause = {"data-wait": 30 * MS, "late-rank-data": round(waits * MS), "gemm": round((end - 30) * MS)}
    times = {"start_ns": round(start * MS), "length_ns": 100 * MS, "waiting_ns": round(waits * MS), "residual_ns": MS}
    known = {"rank": rank, "by_cause": by_cause, "causes": causes, "lanes": lanes}
    return RankRow(**known | times | changes)  # type: ignore[arg-type]


def job_timeline(name: str = "nvjet_tst_128x256") -> JobTimeline:
    """Two of six ranks in two steps, of which rank 1 is late; a stream of rank 0 runs a kernel of the name."""
    labels = (("data-wait", "data"), ("late-rank-data", "data"), ("gemm", "compute"), (name, "compute"))
    stream = lane("stream 7", "stream", (60, 20, 3, 1))
    meeting = Meeting(
        kind="allreduce", group=name, ranks=(0, 1), start_ns=(30 * MS, 55 * MS), end_ns=(70 * MS, 70 * MS), last=1
    )
    median = JobStep(
        step=12, chosen="median", length_ns=105 * MS, meetings=(meeting,), meetings_left_out=3, merged_below_ns=9 * US,
        rows=(rank_row(0, 0, 25, (stream,), residual_ns=0), rank_row(1, 5, 0.5)),
        waiting_shares=(0.25, 0.005, 0.21, 0.22, None, 0.4),
    )  # fmt: skip
    slowest = replace(median, step=14, chosen="slowest", rows=(rank_row(0, 2, 33), rank_row(1, 0, 0, residual_ns=None)))
    return JobTimeline(
        labels=tuple(SliceLabel(name=name, class_=class_) for name, class_ in labels),  # type: ignore[arg-type]
        steps=(median, slowest), aligned=True, late=(1,), late_is_named=True, typical=0, ranks_left_out=4,
    )  # fmt: skip


def kernel(name: str, ns: int, **changes: object) -> KernelRow:
    known = {"family": "gemm", "class_": "compute", "bound": "compute", "operator": "aten::mm", "above_roof_ns": 1234}
    figures = {"count": 12.0, "ns": ns, "share": ns / (174 * MS), "mean_ns": ns // 12}
    return KernelRow(**{"name": name} | known | figures | changes)  # type: ignore[arg-type]


def operator(name: str, ns: int, **changes: object) -> OperatorRow:
    figures = {"count": 12.0, "ns": ns, "share": ns / (174 * MS), "mean_ns": ns // 12, "shapes": "512x512, 512x512"}
    figures["kind"] = "matrix products"
    return OperatorRow(**{"name": name} | figures | changes)  # type: ignore[arg-type]


def code_line(name: str = "collate", **changes: object) -> CodeLine:
    of = {"share": 0.62, "of": "214 samples of the training thread"}
    return CodeLine(**{"file": f"{name}.py", "line": 31, "function": name} | of | changes)  # type: ignore[arg-type]


def user_code(name: str = "collate") -> UserCode:
    """One function of the name."""
    function = UserFunction(file=f"src/{name}.py", line=31, function=name, share=0.62, total_share=0.7, doing="loading")
    return UserCode(
        functions=(function,),
        of="214 samples of the training thread",
        other_share=0.38,
        cost_share=0.0021,
    )


def range_row(name: str = "get_batch", **changes: object) -> RangeRow:
    """A range of the job's own in which the device idles for a fifth of the step."""
    of_host = {"by": "code", "count": 1.0, "ns": 40 * MS, "share": 0.23}
    on_device = {"gpu_ns": 3 * MS, "idle_ns": 35 * MS, "idle_share": 0.2}
    return RangeRow(**{"name": name} | of_host | on_device | changes)  # type: ignore[arg-type]


def window(name: str, ns: float, **changes: object) -> WindowReport:
    """One of several windows of a process, of two steps that wait for the host."""
    written = {"process": "process 7 on n", "began": "2026-01-02 03:04:05 UTC", "numbers": (6, 7), "steps": 2}
    known = {"name": name, "step_ns": ns, "class_ns": {"host": ns}, "is_reported": False}
    return WindowReport(**known | written | changes)  # type: ignore[arg-type]


def entry(family: str, **changes: object) -> RooflineEntry:
    known = {"direction": "", "precision": "bf16", "ns": 40 * MS, "kernels": 12.0, "flops": 2e13, "bytes": 5e10}
    reached = {"intensity": 400.0, "tflops": 500.0, "gbs": 1250.0, "bound": "compute", "above_roof_ns": 9 * MS}
    return RooflineEntry(**{"family": family, "note": ""} | known | reached | changes)  # type: ignore[arg-type]


def drawn() -> Diagnosis:
    """The composed report of the terminal's golden, with all that only a page shows."""
    short = [kernel(f"elementwise_kernel_{i}", (40 - i) * US, family="elementwise", class_="memory") for i in range(30)]
    return replace(
        diagnoses.data_bound(),
        timeline=timeline(),
        kernels=(kernel("nvjet_tst_128x256_64x4_TNT", 40 * MS), kernel("ncclDevKernel_AllReduce", 2 * MS), *short),
        roofline=(entry("gemm"), entry("norm", flops=None, intensity=0.0, tflops=None, bound="memory")),
        operators=(entry("mm [512, 512]", ns=9 * MS, intensity=85.0, tflops=200.0),),
        roofs=Roofs(
            hbm_bytes_per_s=3.35e12,
            hbm_source="the table",
            peaks=(Peak(precision="bf16", flops_per_s=989e12, source="the table"),),
        ),
        versions={"torch": "2.9.1"},
    )


def joined(name: str = "node") -> Diagnosis:
    """Six ranks on three hosts whose names begin with `name`, two more without a trace, and all a post-mortem says."""
    of = drawn()
    waits = diagnoses.ledger(174, 8, late_rank_data=("data", 12.0), gemm=("compute", 162.0))
    works = diagnoses.ledger(174, 8, data_wait=("data", 15.0), gemm=("compute", 159.0))
    late = Straggler(
        rank=1, host=f"{name}0", cause="data", because="15.0 ms more", waiting_ns_caused=480 * MS, steps_late=8,
        excess=(Excess(cause="data-wait", ns=15 * MS), Excess(cause="gemm", ns=MS), Excess(cause="norm", ns=70)),
        explained_share=0.9472, gpu_hours_per_day=8.28, cost_per_day=20.7,
    )  # fmt: skip
    return replace(
        of,
        ranks=tuple(
            replace(of.ranks[0], rank=rank, host=f"{name}{rank // 2}", ledger=works if rank == 1 else waits)
            for rank in range(6)
        ),
        stragglers=(late,),
        trace=replace(of.trace, missing_ranks=(6, 7)),
        job_timeline=job_timeline(),
        history=(
            HistoryChange(
                since_step=8123, until_step=9000, change_share=0.14, ranks=(1,), hosts=(f"{name}0",),
                says=f"since step 8,123: 14 % slower on {name}0",
            ),
        ),
        windows=(window(f"{name}@1", 9e6, process=name), window(f"{name}@2", 7e6, process=name, is_reported=True)),
        postmortem=Postmortem(
            mismatches=(Mismatch(kind="count", group=name, ranks=(1,), says=f"rank 1 on {name}0 has 3 fewer"),),
            passing=(Straggler(rank=4, host=f"{name}2", cause="gc", waiting_ns_caused=MS, steps_late=2),),
            traffic=(traffic(name), traffic(f"{name}b", bytes=None, busbw_gbs=None, expected_busbw_gbs=None)),
            changes=(
                JobChange(change="no straggler", says="no rank is late", speedup=(1.07, 1.09), gpu_hours_per_day=9.7),
            ),
            changes_error=0.0123,
            clocks=tuple(Clock(rank=r, offset_ns=1000 * r, drift_ppm=0.25 * r, residual_ns=300 + r) for r in range(6)),
            clocks_agree=True,
        ),
    )  # fmt: skip


def traffic(group: str, **changes: object) -> Traffic:
    known = {"kind": "allreduce", "ranks": 6, "bytes": 26_214_400, "count_per_step": 12.0, "note": "by a model"}
    times = {"transfer_ns": 200_000, "waiting_ns": 50_000, "exposed_share": 0.031}
    rates = {"busbw_gbs": 131.07, "expected_busbw_gbs": 255.0}
    return Traffic(**{"group": group} | known | times | rates | changes)  # type: ignore[arg-type]


def hostile() -> Diagnosis:
    """Every name that a trace or a rule can choose is HOSTILE."""
    finding = Finding(
        rule=HOSTILE,
        class_="host",
        severity="warning",
        says=HOSTILE,
        action=HOSTILE,
        do=HOSTILE,
        evidence=(Evidence(fact=HOSTILE, value=HOSTILE, unit="text", of=HOSTILE),),
        predicted_speedup=(1.1, 1.2),
        patch=Patch(target="environment", set={HOSTILE: HOSTILE}),
        assumes=HOSTILE,
        where=(code_line(HOSTILE, of=HOSTILE), code_line(HOSTILE)),
        where_because=HOSTILE,
        where_capture_next=HOSTILE,
    )
    job = joined(HOSTILE)
    assert job.postmortem is not None
    kind = replace(job.postmortem.traffic[0], kind=HOSTILE, note=HOSTILE)
    change = JobChange(change=HOSTILE, says=HOSTILE, speedup=(1.1, 1.2))
    return diagnoses.judged(
        diagnoses.hostile(),
        ranks=job.ranks,
        stragglers=(replace(job.stragglers[0], because=HOSTILE, first_diverging=HOSTILE),),
        history=job.history,
        windows=job.windows,
        postmortem=replace(job.postmortem, traffic=(kind, *job.postmortem.traffic), changes=(change,)),
        findings=(finding,),
        timeline=timeline(HOSTILE),
        job_timeline=job_timeline(HOSTILE),
        kernels=(kernel(HOSTILE, MS, operator=HOSTILE, family=HOSTILE), kernel("a" + HOSTILE, MS)),
        roofline=(entry(HOSTILE, note=HOSTILE),),
        operators=(entry(HOSTILE),),
        host_operators=(operator(HOSTILE, MS, shapes=HOSTILE),),
        user_code=user_code(HOSTILE),
        ranges=(range_row(HOSTILE), range_row("", names=3)),
        roofs=drawn().roofs,
        versions={HOSTILE: HOSTILE},
    )
