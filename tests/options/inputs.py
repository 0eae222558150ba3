"""What the command lines of the tables read: samples, real jobs, and small files that are made when asked for."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

from analysed import GEMM
from armed_folders import armed_folder
from click.testing import CliRunner
from distributed_traces import DISTRIBUTED
from fleets import made_job, written
from kept_promises import promise
from kineto import Trace
from machine.compiled_jobs import job as compiled_job
from made_up_jobs import diagnosed
from options.jobs import Jobs
from options.rows import SAMPLES
from torch_allocator import MIB, Allocator, frame

from diagnose.cli import main
from diagnose.commands.ledger import file as promises_file
from diagnose.diagnosis import Applied, Patch

WINDOWS = Path(__file__).parents[1] / "strangers" / "two-windows-one-process"
DCGM = """\
DCGM_FI_DEV_SM_CLOCK{gpu="0",Hostname="node7"} 1155
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="0",Hostname="node7"} 32
DCGM_FI_DEV_MAX_SM_CLOCK{gpu="0",Hostname="node7"} 1980
"""
BROKEN = {"co_filename": "/job/train.py", "co_name": "torch_dynamo_resume_in_forward_at_17", "co_firstlineno": 10}


class Inputs:
    """The inputs by name: a function of this module with that name makes one, else it is a job or a sample."""

    def __init__(self, folder: Path, jobs: Jobs) -> None:
        self._folder, self._jobs = folder, jobs

    def __call__(self, name: str) -> Path:
        """Where the input is."""
        if name in JOBS:
            return self._jobs(JOBS[name]).bundle
        if name not in MADE:
            assert (SAMPLES / name).exists(), name
            return SAMPLES / name
        place = self._folder / name
        if not place.exists():
            place.mkdir()
            MADE[name](place)
        return place


def reads_a_job(line: str) -> bool:
    """Whether the command line reads what a real job left."""
    return any(f"{{{name}}}" in line for name in JOBS)


JOBS = {"trainer": "logged", "armed": "every"}


def two_runs(place: Path) -> None:
    """Traces of two runs that nothing joins."""
    for name in ("cpu-healthy", "cpu-slow-loader"):
        shutil.copy(SAMPLES / f"{name}.json.gz", place)


def two_windows(place: Path) -> None:
    """Traces of two windows of one process."""
    shutil.copytree(WINDOWS, place, dirs_exist_ok=True)


def diagnosis(place: Path) -> None:
    """A diagnosis as JSON."""
    done = CliRunner().invoke(main, ["analyze", str(SAMPLES / "synthetic-straggler"), "--json"])
    (place / "d.json").write_text(done.stdout)


def rule(place: Path) -> None:
    """A folder with a rule of the user's, which replaces one that is built in."""
    text = (SAMPLES.parent / "rules" / "data-wait.toml").read_text()
    (place / "data-wait.toml").write_text(text.replace('= "The', '= "Our team says that the'))


def two_nodes(place: Path) -> None:
    """Two ranks on two nodes that wait for their network."""
    case = DISTRIBUTED["slow-network"]
    for job in case.files(True):
        job.write(place / f"rank{job.rank}.json")
        record = {**(case.record or {}), "host": f"node{job.rank}"}
        (place / f"capture-rank{job.rank}.json").write_text(json.dumps(record))


def saving(place: Path) -> None:
    """Steps of 40 ms, of which every other one saves for 20 ms more."""
    job = Trace(gpu=None)
    for number in range(5):
        with job.step():
            job.cpu_op("aten::mm", 40_000)
            if number % 2:
                job.event("user_annotation", "diagnose.save", 20_000)
    job.write(place / "rank0.json.gz")
    saves = {"training_arguments": {"save_strategy": "steps", "save_steps": 2}}
    (place / "capture-rank0.json").write_text(json.dumps(saves))


def batch(place: Path) -> None:
    """A step of 32 sequences of 1024 tokens on a GPU of node7, compiled."""
    job = Trace()
    for _ in range(5):
        with job.step():
            for _ in range(10):
                job.launch(GEMM, 4000)
            job.sync(stream=None)
    job.write(place / "rank0.json.gz")
    record = {
        "world_size": 1,
        "host": "node7",
        "device": {"index": 0},
        "optimizer": {"class": "AdamW"},
        "batch": {"tokens": 4096, "shapes": {"input_ids": [4, 1024]}},
        "training_arguments": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 8},
    }
    (place / "capture-rank0.json").write_text(json.dumps(record))


def monitor(place: Path) -> None:
    """What DCGM's exporter says of the GPU."""
    (place / "dcgm.txt").write_text(DCGM)


def graphs(place: Path) -> None:
    """A job whose functions may be compiled, of which nothing tells."""
    compiled_job().write(place / "rank0.json.gz")


def forgotten(place: Path) -> None:
    """A ledger to be cleared."""
    promises(place)


def many_jobs(place: Path) -> None:
    """Diagnoses of more jobs than a page of text lists."""
    written(place, {f"job-{number:02}": made_job(causes={"data-wait": 0.01 * number}) for number in range(40)})


def snapshot(place: Path) -> None:
    """What torch's allocator says of more lines than a page of text lists."""
    allocator = Allocator(limit=4000 * MIB)
    for line in range(40):
        allocator.alloc(8 * MIB, [frame("train.py", line, "train")])
    (place / "a.pickle").write_bytes(pickle.dumps(allocator.snapshot(), protocol=4))


def torch_trace(place: Path) -> None:
    """What TORCH_TRACE wrote of a function that broke the graph."""
    line = "V1122 19:00:00.1 7 torch/_dynamo/utils.py:1] " + json.dumps({"compilation_metrics": BROKEN, "rank": 0})
    (place / "dedicated_log_torch_trace_rank_0_x.log").write_text(line)


def functions(place: Path) -> None:
    """A trace without marks of steps, which is one step; a Python function takes most of it."""
    job = Trace(gpu=None)
    job.cpu_op("aten::mm", 1000)
    job.event("python_function", "train.py(3): train", 5000)
    job.write(place / "rank0.json.gz")


def counting(place: Path) -> None:
    """A folder for PYTHONPATH, by which each Python process leaves a line in the file that STARTED names."""
    (place / "sitecustomize.py").write_text('import os\nopen(os.environ["STARTED"], "a").write("one\\n")\n')


def steps_log(place: Path) -> None:
    """Logs of steps, and a table of runs."""
    rows = [f"{step},{500 if step == 150 else 100},{step * 0.2:.1f}" for step in range(1, 201)]
    (place / "steps.csv").write_text("\n".join(["step,step_time_ms,lap_s", *rows]))
    (place / "odd.csv").write_text("\n".join(["number,took,other", *rows]))
    (place / "samples.csv").write_text("\n".join(["step,step_time_s", *(f"{64 * at},0.1" for at in range(1, 201))]))
    (place / "plain.csv").write_text("\n".join(["step,time", *(f"{step},{100 + step % 3}" for step in range(1, 201))]))


def ladder(place: Path) -> None:
    """A table of runs on more and more GPUs, of which one had another stack and one another batch."""
    rows = ("1,100,8000,a", "2,104,16000,a", "4,110,32000,a", "8,125,64000,b", "16,140,128000,a")
    table = ["gpus,step_ms,tokens_per_step,stack,seq_len", *(f"{row},512" for row in rows)]
    (place / "runs.csv").write_text("\n".join(table))
    (place / "times.csv").write_text("gpus,step_ms\n1,100\n2,104\n4,110\n8,125\n")


def jobs_of_fleet(place: Path) -> None:
    """A diagnosis, a run without one, and how long both ran."""
    diagnosis(place)
    (place / "run").mkdir()
    shutil.copy(SAMPLES / "synthetic-compute-bound.json.gz", place / "run" / "rank0.json.gz")


def accounting(place: Path) -> None:
    """How long the jobs of the fleet ran."""
    (place / "jobs.csv").write_text("job,gpu_hours,label\nd,500,ours\nrun,100,theirs\n")


def baselines(place: Path) -> None:
    """Baselines by name."""
    functions(place)
    kept = {"healthy": "cpu-healthy.json.gz", "gpu": "synthetic-memory-bound.json.gz", "ranks": "gloo-healthy"}
    runs = {name: SAMPLES / sample for name, sample in kept.items()} | {"functions": place / "rank0.json.gz"}
    for name, run in runs.items():
        done = CliRunner().invoke(main, ["baseline", "save", name, str(run), "--dir", str(place)])
        assert done.exit_code == 0, done.output


def promises(place: Path) -> None:
    """A ledger that keeps five promises of a rule, which are enough to be quoted."""
    for number in range(5):
        promises_file.append(place, promise(number))


def with_a_patch(place: Path) -> None:
    """Diagnoses of a run and of the same with a patch that promised a gain."""
    applied = Applied(
        patches=(Patch(target="training_arguments", set={"dataloader_num_workers": 4}),),
        rule="data-wait",
        predicted_speedup=(1.5, 2.0),
    )
    (place / "a.json").write_text(diagnosed(100.0).to_json())
    (place / "b.json").write_text(diagnosed(60.0, applied=applied).to_json())


def configurations(place: Path) -> None:
    """Tables of jobs to predict; one has a column that nobody knows."""
    jobs = "model,gpu,gpus,micro_batch,seq_len\nllama-3.2-1b,H100,8,2,2048\n"
    (place / "jobs.csv").write_text(jobs)
    (place / "odd.csv").write_text(jobs.replace("seq_len", "seq_len,colour").replace("2048", "2048,red"))


def functions_of_fleet(place: Path) -> None:
    """A run on a GPU whose Python functions tell of garbage collection."""
    job = Trace()
    for _ in range(5):
        with job.step():
            for _ in range(4):
                job.launch(GEMM, 300)
                job.sync(stream=None)
            job.gc(3000)
    (place / "run").mkdir()
    job.write(place / "run" / "rank0.json.gz")


def ranks_of_fleet(place: Path) -> None:
    """A run of several ranks without a diagnosis."""
    shutil.copytree(SAMPLES / "synthetic-straggler", place / "run")


def skills(place: Path) -> None:
    """Skills of an agent, of which one is called as ours."""
    (place / "diagnose").mkdir()
    (place / "diagnose" / "SKILL.md").write_text("the user's own")


def armed_logs(place: Path) -> None:
    """An armed run that has ended, without a window."""
    armed_folder(place / "run", windows=[])


def armed_window(place: Path) -> None:
    """The same with a window that nobody has analysed."""
    armed_folder(place / "run", windows=[20])


Make = Callable[[Path], None]
MADE: dict[str, Make] = {
    make.__name__: make
    for make in (
        two_runs, two_windows, diagnosis, rule, two_nodes, saving, batch, graphs, monitor, torch_trace, functions,
        counting, steps_log, ladder, snapshot, jobs_of_fleet, many_jobs, functions_of_fleet, ranks_of_fleet,
        accounting, baselines, promises, forgotten, configurations, with_a_patch, skills, armed_logs, armed_window,
    )
}  # fmt: skip
