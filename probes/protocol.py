"""The terms that `diagnose run` and the processes of a job agree on: variables, names of files, defaults.

The parent, the probes and the analysis read it, and so does the start-up file in every Python process of a job. So it
imports nothing that an interpreter has not loaded at its start, and keeps to the syntax of Python 3.9.
"""

import os
import time

# The environment of a job; launchers that forward only PYTHON* forward these.
CONFIG = "PYTHON_DIAGNOSE"
MARKS = "PYTHON_DIAGNOSE_SEEN"
PATCH = "PYTHON_DIAGNOSE_APPLY"
PIPELINE = "PYTHON_DIAGNOSE_PIPELINE"  # the request of `diagnose data`: measure the input, capture nothing

NSIGHT = "NSYS_PROFILING_SESSION_ID"  # set by Nsight Systems in the processes that it records

# The window, in optimizer steps, wherever nothing else is asked for: by the command, a callback, or in code.
STEPS = 4  # the first of three or more is not counted: it holds what was launched before the window
STEPS_OF_RANKS = 7  # of each of several ranks: as many as tell whether one of them is always late
WARMUP = 2
SKIP = 10
CONTROL = 3
BUDGET_BYTES = 256_000_000  # of text by each rank, before it is compressed to about a tenth
SAMPLE_STEPS_TOGETHER = 20  # by ranks that `--stop` ends; elsewhere as many as the samples take
WARMUP_IN_CODE = 1  # `profile()` opens at a place in the script, often in a loop hardly longer than the window
WAIT_IN_CODE = 0

# Ranges in a trace: around what the job does, and what begins and ends a step.
STEP_RANGE = "diagnose.step"
DATA_WAIT_RANGE = "diagnose.data_wait"
TO_DEVICE_RANGE = "diagnose.to_device"
FORWARD_RANGE = "diagnose.forward"
BACKWARD_RANGE = "diagnose.backward"
CLIP_RANGE = "diagnose.clip"
OPTIMIZER_RANGE = "diagnose.optimizer"
LOG_RANGE = "diagnose.log"
EVAL_RANGE = "diagnose.eval"
SAVE_RANGE = "diagnose.save"
GENERATION_RANGE = "diagnose.generation"
REWARDS_RANGE = "diagnose.rewards"
LOG_PROBABILITIES_RANGE = "diagnose.log_probabilities"
FIRST_BATCH_RANGE = DATA_WAIT_RANGE + ".first"  # of a pass; this and the next three are timed, and in no trace
COMPILE_RANGE = "diagnose.compile"
BETWEEN_LOOPS_RANGE = "diagnose.between_loops"
OWN_RANGE = "diagnose.own"
IMPORT_RANGE = "diagnose.import"  # before the first step only, as the next six
LOAD_MODEL_RANGE = "diagnose.load_model"
LOAD_DATA_RANGE = "diagnose.load_data"
MAP_RANGE = "diagnose.map"
CHECKPOINT_RANGE = "diagnose.read_checkpoint"
PROCESS_GROUP_RANGE = "diagnose.process_group"
BARRIER_RANGE = "diagnose.barrier"
PART_OF_RANGE = {  # the part of the wall time that each of these is; steps without them are productive
    DATA_WAIT_RANGE: "waiting for data",
    FIRST_BATCH_RANGE: "waiting for data",
    EVAL_RANGE: "evaluation",
    SAVE_RANGE: "saving",
    LOG_RANGE: "logging",
    COMPILE_RANGE: "compiling",
    OWN_RANGE: "capturing",
    BETWEEN_LOOPS_RANGE: "idle",
}
OWN_STEPS = "diagnoseSteps"  # the key of a trace under which the first step of the probe stands, and how many
JOBS_PROFILER = "the job started a profiler of its own"  # why a window ended, as its record has it
MANY_BATCHES = "many batches came without a step"  # likewise
SCRIPT = "script"  # who makes an optimizer or a loader that no framework makes, as the record has it
BY_TRAINER = "trainer"  # the source of a capture's steps, as its record has it; the next two likewise
BY_OPTIMIZER = "optimizer"
BY_BACKWARD = "backward"

# A run that is armed: step times of every step, and windows that open again.
ARMED = "armed"  # the phase of a session between two windows
WINDOWS = 8  # that open for slow steps, and as many by count
WHEN_SLOW = 1.3
STEP_LOG = "rank{}.steps"
LIVE = "live.jsonl"  # figures of the steps, of a loop whose loggers do not take them
PHASE_SHARE = 0.03  # of the time: slow steps that come again and take less are no phase that anybody asks about
WINDOW_FOLDER = "step-{}"  # of a window, by its first recorded step
ANNOUNCED = "windows"  # in the scratch folder, as the next three: the windows that open, announced by rank 0
ASK = "rank{}.ask"  # a rank has seen slow steps
TRIGGER = "trigger"  # somebody wants a window
PULSE = "rank{}.pulse"  # the process, and the number of steps it has done

# What a record holds of sampled stacks, at most.
MOST_STACKS = 200
MOST_STACK_FRAMES = 40
MOST_BELOW = 40

# Files of rank {} in a bundle.
TRACE = "rank{}.json.gz"
RECORD = "capture-rank{}.json"
DONE = "rank{}.done"
RUN_TIME = "run-rank{}.json"  # where the wall time of the process went, written at its end
MEMORY = "memory-rank{}.pickle"
MEMORY_AT_OOM = "memory-rank{}-oom.pickle"
HANG_DUMP = "flight-recorder-rank{}"  # torch writes it, when a call of a collective times out
STACKS = "stacks-rank{}.txt"  # py-spy's, of a job that stands still

DIAGNOSIS = "diagnosis.json"  # the parent's, of all ranks
REPORT = "report.txt"  # the same for readers

# What lies in the scratch folder of a bundle meanwhile.
SCRATCH = ".diagnose"
OWNER = "owner"
OWNER_PARTIAL = ".owner.part"
MARKS_FOLDER = "seen"  # one empty file each: these two, and the watched modules that were imported
PYTHON_MARK = "python"
FORKED_MARK = "multiprocessing"
SEEN_MARK = "seen."  # and three numbers with points between: batches, backward passes and steps of a process
PARTIAL = ".{}.{}.part"  # the name of a file, in a process, until it is complete
PARENT = "parent-{}"
CLAIM = "rank{}.claim"
RAW_FOLDER = "raw-"
RAW = "trace.json"
RAW_PARTIAL = "trace.json.tmp"  # the exporter of torch writes under this name first

RUNS = "diagnose-runs"
TIME = "%Y-%m-%d_%H-%M-%S"


def hooked() -> "tuple[str, ...]":
    """The columns of the table of frameworks whose hooks this job asks for."""
    if PIPELINE in os.environ:
        return ("input_hooks",)
    return ("hooks", "patches") if PATCH in os.environ else ("hooks",)


def partial(name: str) -> str:
    """The name of a file, in this process, until it is complete."""
    return PARTIAL.format(name, os.getpid())


def rank_in(name: str, pattern: str) -> "int | None":
    """The rank in a file name made by `pattern`, such as `DONE`; None when it is no such name."""
    start, end = pattern.split("{}")
    number = name[len(start) : len(name) - len(end)]
    fits = name == start + number + end and number.isascii() and number.isdecimal() and len(number) < 10
    return int(number) if fits else None


def default_out() -> str:
    """A folder named for the time, below the working folder."""
    return os.path.join(RUNS, time.strftime(TIME))
