"""Each rule from end to end: it fires on a trace with its fault, and not on the same trace without it."""

from pathlib import Path

import pytest
from distributed_traces import DISTRIBUTED
from faulty_traces import CASES, Case, Files
from machine.announcing_jobs import CASES as ANNOUNCED
from machine.compiled_jobs import CASES as COMPILED
from machine.environment_jobs import CASES as ENVIRONMENT
from machine.machine_jobs import CASES as MACHINE
from machine.test_clock_offset import RULE as CLOCKS_APART
from own_words import in_its_words
from remedies.single_gpu_jobs import CASES as SINGLE_GPU
from remedies.test_attention_on_a_cpu import RULE as ATTENTION_ON_A_CPU
from remedies.test_cpu_optimizer import RULE as CPU_OPTIMIZER
from remedies.test_fp16_on_cpu import RULE as FP16_ON_CPU
from remedies.test_loop_collectives import RULE as LOOP_COLLECTIVES
from remedies.test_looped_operators import RULE as LOOPED
from remedies.test_on_a_cpu import RULES as ON_A_CPU
from remedies.test_one_hot import RULE as ONE_HOT
from remedies.test_page_faults import RULE as PAGE_FAULTS
from remedies.test_seldom_operators import RULE as SELDOM
from remedies.test_unstepped_gradients import RULE as UNSTEPPED
from test_evaluations import RULES as OF_EVALUATIONS
from test_late_batches import RULE as LATE_BATCHES
from test_loader_passes import LOADING_BEYOND_WORKERS, STARTS
from test_other_gpus import RULE as SEVERAL_GPUS
from test_periodic_phase import RULE as PERIODIC_PHASE
from test_slowing_steps import RULE as SLOWING

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.metrics import units
from diagnose.rule import load_rules

NOT_REACHABLE = {
    "speed-changed-in-capture": "the times of steps without the profiler are in the capture record, not in the trace",
    "profiler-distortion": "the times of steps without the profiler are in the capture record, not in the trace",
    "samples-repeated-by-workers": "whether workers share the samples out is in the capture record, not in the trace",
    "samples-repeated-by-ranks": "which rows a loader draws from is in the capture record, not in the trace",
    "unused-vector-units": "the instructions that torch uses are in the capture record, not in the trace",
    "passes-left-early": "passes over a loader are in the capture record, not in the trace",
    "cut-capture": "what of the window was left out is in the capture record, not in the trace",
    "padded-batches": "the tokens that are padding are in the capture record, not in the trace",
    "liger-without-kernels": "use_liger_kernel and the model type are in the capture record, not in the trace",
}
RULES = {rule.id for rule in load_rules((), units())}
SAMPLES = Path(__file__).parent.parent / "sample_traces"
HEALTHY = ["cpu-healthy.json.gz", "synthetic-compute-bound.json.gz", "synthetic-healthy-8"]
each = pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES)


def diagnosis(files: Files, folder: Path) -> Diagnosis:
    """The answer to the job, which is written into `folder`."""
    if isinstance(files, str):
        (folder / "trace.json").write_text(files, encoding="utf-8")
    else:
        for job in files:
            job.write(folder / f"rank{job.rank}.json")
    return analyze(folder)


@each
def test_the_rule_fires_on_its_fault(name: str, case: Case, tmp_path: Path) -> None:
    answer = diagnosis(case.files(True), tmp_path)
    found = {f.rule: f for f in answer.findings}

    assert name in found
    assert found[name].severity == case.severity
    assert found[name].patch == in_its_words(answer, case.patch)
    assert found[name].evidence


@each
def test_the_rule_is_judged_and_silent_without_its_fault(name: str, case: Case, tmp_path: Path) -> None:
    answer = diagnosis(case.files(False), tmp_path)

    assert name not in {f.rule for f in answer.findings}
    assert name not in {n.rule for n in answer.not_judged}


def test_every_rule_is_reached_or_cannot_be() -> None:
    cases = (CASES, NOT_REACHABLE, DISTRIBUTED, SINGLE_GPU, ENVIRONMENT, MACHINE, COMPILED, ANNOUNCED)

    shown = {
        CPU_OPTIMIZER,
        FP16_ON_CPU,
        CLOCKS_APART,
        ATTENTION_ON_A_CPU,
        SEVERAL_GPUS,
        PERIODIC_PHASE,
        SLOWING,
        LATE_BATCHES,
        LOOP_COLLECTIVES,
        LOOPED,
        ONE_HOT,
        SELDOM,
        PAGE_FAULTS,
        STARTS,
        UNSTEPPED,
        LOADING_BEYOND_WORKERS,
        *OF_EVALUATIONS,
        *ON_A_CPU,
    }
    assert {name for of in cases for name in of} | shown == RULES
    assert not set(CASES) & set(NOT_REACHABLE)


@pytest.mark.parametrize("name", NOT_REACHABLE)
def test_a_rule_that_cannot_be_reached_is_not_judged(name: str, tmp_path: Path) -> None:
    answer = diagnosis(CASES["few-steps"].files(False), tmp_path)

    assert name in {n.rule for n in answer.not_judged}


@pytest.mark.long
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_sample_has_no_fault(name: str) -> None:
    classes = {"data", "host", "memory", "communication", "imbalance"}

    assert [(f.rule, f.severity) for f in analyze(SAMPLES / name).findings if f.class_ in classes] == []
