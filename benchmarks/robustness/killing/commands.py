"""The commands that are killed: what each is given, and what it leaves."""

import csv
import io
import pickle
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

SAMPLES = Path(__file__).parents[3] / "sample_traces"
PAGES = (
    "--html", "out/page.html", "--markdown", "out/page.md", "--tables", "out/tables", "--annotate",
    "out/annotated.json.gz",
)  # fmt: skip
TRAINS = """
import json, os, shutil, sys
given = json.loads(os.environ.get("PYTHON_DIAGNOSE", "null"))
if given is None:  # the capture could not begin, and the job runs all the same
    raise SystemExit
out = given["out"]
os.makedirs(out, exist_ok=True)
shutil.copy(sys.argv[1], os.path.join(out, "rank0.json.gz"))
done = {"rank": 0, "world_size": 1, "trace": "rank0.json.gz", "capture": "", "token": given["token"]}
with open(os.path.join(out, "partial"), "w") as file:
    json.dump(done, file)
os.replace(os.path.join(out, "partial"), os.path.join(out, "rank0.done"))
"""
TRAINS_ARMED = """
import json, os, shutil, sys
given = json.loads(os.environ.get("PYTHON_DIAGNOSE", "null"))
if given is not None:
    shutil.copy(sys.argv[1], os.path.join(given["out"], "rank0.steps"))
"""
TRAINS_WITH_TORCH = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters())
for batch, in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(400, 64)), batch_size=4):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@dataclass(frozen=True)
class Command:
    """A command line, run in a folder of its own.

    Attributes:
        arguments: of `diagnose`; what it reads is below in/, what it writes below out/.
        inputs: makes what it reads in the folder that it is given.
        codes: how it may end undisturbed.
        stdin: the file that it is given as its input.
        keeps: names that a kill may leave for good: a capture as far as it got is the user's.
        at_moments: it is killed at each moment, too; else at random times alone, since it trains with torch.
    """

    arguments: tuple[str, ...]
    inputs: Callable[[Path], object]
    codes: tuple[int, ...] = (0,)
    stdin: str = "/dev/null"
    keeps: str = "nothing"
    at_moments: bool = True


def _sample(*names: str) -> Callable[[Path], object]:
    def put(folder: Path) -> None:
        for name in names:
            source = SAMPLES / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)

    return put


def _promises(folder: Path) -> None:
    from kept_promises import promise

    from diagnose.commands.ledger.file import append

    for number in range(3):
        append(folder.parent / "data", promise(number))


def _steps(folder: Path) -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["step", "step_time_ms"])
    rows.writerows((number, 400 if number % 50 == 0 else 100 + number % 3) for number in range(1, 301))
    (folder / "steps.csv").write_text(text.getvalue())


def _sizes(folder: Path) -> None:
    rows = "".join(f"{2**each},{100 + 5 * each},64\n" for each in range(5))
    (folder / "runs.csv").write_text("gpus,step_time_ms,global_batch\n" + rows)


def _planned(folder: Path) -> None:
    row = "llama-3.1-8b,H100-SXM5-80GB,8,2,4096\n"
    (folder / "table.csv").write_text("model,gpu,gpus,micro_batch,seq_len\n" + row)


def _dumps(folder: Path) -> None:
    import kinds_of_hangs

    for rank, content in kinds_of_hangs.MISSING.items():
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content))


def _training(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINS)
    _two(folder)


def _armed_training(folder: Path) -> None:
    from diagnose.probes.timing.step_log import StepLog

    (folder / "train.py").write_text(TRAINS_ARMED)
    log = StepLog(str(folder / "steps"), {"rank": 0, "world_size": 1, "done": 0, "host": "node-a"})
    for step in range(1, 301):
        log.add(step, 900_000_000 if step % 60 == 0 else 100_000_000, profiled=False)
    log.write(to_the_end=True)
    log.close()


def _armed_run(folder: Path) -> None:
    from diagnose.probes.protocol import SCRATCH

    _armed_training(folder)
    (folder / "run" / SCRATCH).mkdir(parents=True)
    (folder / "steps").replace(folder / "run" / "rank0.steps")


def _with_torch(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINS_WITH_TORCH)


def _fleet(folder: Path) -> None:
    for name in ("cpu-healthy", "cpu-slow-loader"):
        (folder / name).mkdir()
        shutil.copy(SAMPLES / f"{name}.json.gz", folder / name)


def _held(folder: Path) -> None:
    from diagnose.analysis import analyze
    from diagnose.commands.compare.baseline import kept, written
    from diagnose.commands.compare.side import side_of

    _sample("cpu-healthy.json.gz")(folder)
    (folder / "kept").mkdir()
    path = SAMPLES / "cpu-healthy.json.gz"
    (folder / "kept" / "one.json").write_bytes(written(kept(side_of(analyze(path), str(path)), "one")))


def _two(folder: Path) -> None:
    _sample("cpu-healthy.json.gz", "cpu-slow-loader.json.gz")(folder)


_ONE = "in/cpu-healthy.json.gz"
COMMANDS: Mapping[str, Command] = {
    "analyze": Command(("analyze", _ONE, *PAGES), _sample("cpu-healthy.json.gz")),
    "analyze ranks": Command(("analyze", "in/gloo-healthy", "--html", "out/page.html"), _sample("gloo-healthy")),
    "analyze a stream": Command(("analyze", "-", "--no-cache"), _sample("cpu-healthy.json.gz"), stdin=_ONE),
    "analyze by processes": Command(
        ("analyze", "in/gloo-healthy", "--jobs", "2", "--no-cache"), _sample("gloo-healthy")
    ),
    "compare": Command(("compare", _ONE, "in/cpu-slow-loader.json.gz", "--html", "out/page.html"), _two),
    "baseline save": Command(("baseline", "save", "one", _ONE, "--dir", "out/kept"), _sample("cpu-healthy.json.gz")),
    "baseline check": Command(
        ("baseline", "check", "one", _ONE, "--dir", "in/kept", "--html", "out/page.html", "--markdown", "out/page.md"),
        _held,
    ),
    "fleet": Command(("fleet", "in", "--html", "out/page.html", "--tables", "out/tables"), _fleet),
    "trigger": Command(("trigger", "in/run", "--wait", "0"), _armed_run),
    "watch": Command(
        ("watch", "in/run", "--once", "--page", "out/page.html", "--prometheus", "out/view.prom"), _armed_run
    ),
    "doctor": Command(("doctor",), _sample()),
    "series": Command(("series", "in/steps.csv"), _steps),
    "scaling": Command(("scaling", "in/runs.csv"), _sizes),
    "fit": Command(("fit", "--table", "in/table.csv", "--out", "out/predicted.csv"), _planned),
    "hang": Command(("hang", "in", "--html", "out/page.html"), _dumps),
    "memory": Command(
        ("memory", "in/dumps/synthetic-memory-oom.pickle", "--html", "out/page.html"), _sample("dumps")
    ),
    "ledger": Command(("ledger", "--export", "out/promises.json"), _promises),
    "skill": Command(("skill", "--out", "out/skills", "--force"), _sample()),
    "run --on-finding": Command(
        ("run", "--on-finding", "cat > /dev/null", "--out", "out/bundle", "--", sys.executable, "in/train.py", _ONE),
        _training, keeps=r"out/bundle.*",
    ),
    "run": Command(
        ("run", "--html", "out/page.html", "--out", "out/bundle", "--", sys.executable, "in/train.py", _ONE), _training,
        keeps=r"out/bundle.*",
    ),
    "run --arm without torch": Command(
        ("run", "--arm", "--report", "out/report.txt", "--json", "out/run.json", "--out", "out/bundle", "--",
         sys.executable, "in/train.py", "in/steps"),
        _armed_training, keeps=r"out/bundle.*",
    ),
    "run --arm": Command(
        ("run", "--arm", "--every", "40", "--out", "out/bundle", "--", sys.executable, "in/train.py"), _with_torch,
        keeps=r"out/bundle.*", at_moments=False,
    ),
    "data": Command(
        ("data", "--seconds", "1", "--", sys.executable, "in/train.py"), _with_torch, at_moments=False
    ),
    "tune without torch": Command(
        ("tune", "--out", "out/tune", "--", sys.executable, "in/train.py", "in/cpu-slow-loader.json.gz"),
        _training, keeps=r"out/tune/run-.*",
    ),
    "tune": Command(
        ("tune", "--out", "out/tune", "--runs", "2", "--steps", "3", "--", sys.executable, "in/train.py"),
        _with_torch, keeps=r"out/tune/run-.*", at_moments=False,
    ),
}  # fmt: skip
