"""A hook that raises never reaches the job: guarded where it is handed over, and tried for each that there is.

Each of the jobs runs without us and with every hook raising, before and after it has done what it is for.
"""

import ast
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from capture.frameworks import DEEPSPEED, LIGHTNING, real_and_in_order
from capture.scripts import BARE, TRAINER, run
from harmless.handed_over import BROKEN, PROBES, bypassing, sites
from needs import needs

from diagnose.probes.protocol import SCRATCH

needs("torch")

BY_ITSELF = {
    "apply/trainer.py": (2, "values of the job's arguments, no functions"),
    "timing/signals.py": (2, "the system's own handler"),
    "bootstrap/sitecustomize.py": (2, "the start-up file has the probes when torch is there: it guards itself"),
    "machine/sampling.py": (1, "made of built-in parts, in which no exception of the job's is lost"),
    "recording/deferral.py": (1, "the job's own handlers, in their turn"),
    "recording/forks.py": (2, "functions of the C library"),
    "recording/gc_ranges.py": (4, "made of built-in parts, in which no exception of the job's is lost"),
    "recording/recorder.py": (1, "the probe's own profiler, whose every call is guarded"),
    "trainers/transformers_trainer.py": (2, "the callback, which the door made"),
}
"""By file: how many of its lines hand something over without the door, and why they may."""


def test_nothing_is_handed_over_beside_the_door() -> None:
    found = Counter(line.partition(":")[0] for line in bypassing())

    assert found == {file: count for file, (count, _) in BY_ITSELF.items()}, "\n".join(bypassing())


def test_no_argument_of_the_job_has_the_name_of_a_wrappers_own() -> None:
    """A wrapper that passes names on takes what it gets first by position alone: `Dataset.map(function=...)`."""
    wrappers = [
        (path.name, function.name, function.args)
        for path in PROBES.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and function.args.vararg and function.args.kwarg
    ]
    named = [(file, name) for file, name, of in wrappers if of.args and of.args[0].arg != "self" and not of.posonlyargs]

    assert len(wrappers) > 20
    assert named == []


SIGNALS = """
import os, signal
def heard(*_):
    print("heard", flush=True)
signal.signal(signal.SIGUSR2, heard)
"""
CUDA = """
torch.cuda._lazy_call = lambda call: call()
torch.cuda.memory._record_memory_history = lambda **how: None
torch._C._cuda_attach_out_of_memory_observer = lambda observer: observer(0, 1, 2, 3)
"""
BARE_JOB = (
    SIGNALS
    + """
own = torch.profiler.profile()
def during(number):
    if number == 7 and os.fork() == 0:
        os._exit(0)
    if number == 8:
        os.kill(os.getpid(), signal.SIGUSR2)
        if callable(signal.getsignal(signal.SIGUSR1)):
            os.kill(os.getpid(), signal.SIGUSR1)
    if number == 35:
        own.start()
    if number == 37:
        own.stop()
loop(40)
with torch.no_grad():
    for _ in loader(4):
        break
import torch._dynamo
from diagnose.probes.hooks import compile_hooks
compile_hooks.install()
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
print(sum(p.sum().item() for p in model.parameters()), len(own.events()) > 0)
"""
)
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model, optimizer, batches = accelerator.prepare(model, optimizer, loader(20))
for (batch,) in batches:
    accelerator.backward(model(batch).square().mean())
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
print(sum(p.sum().item() for p in model.parameters()))
"""
START = """
import os, pickle, tempfile
from pathlib import Path
import datasets, transformers.modeling_utils
from transformers import LlamaConfig, LlamaModel
from accelerate import Accelerator
from diagnose.probes.hooks import start_hooks
start_hooks.install()
datasets.disable_progress_bars()
transformers.utils.logging.disable_progress_bar()
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 8}
wrapped = [torch.load, datasets.load_dataset, datasets.Dataset.map, LlamaModel.from_pretrained]
print([pickle.loads(pickle.dumps(each)) == each for each in wrapped])
with tempfile.TemporaryDirectory() as there:
    LlamaModel(LlamaConfig(**sizes)).save_pretrained(there)
    LlamaModel.from_pretrained(there)
    (Path(there) / "rows.json").write_text('{"a": 1}\\n{"a": 2}')
    rows = datasets.load_dataset("json", data_files=f"{there}/rows.json", cache_dir=there, split="train")
    print(rows.map(lambda row: {"b": row["a"] + 1}).to_list())
    try:
        rows.map(lambda row: row["none"])
    except KeyError as error:
        print(error)
    accelerator = Accelerator(cpu=True)
    accelerator.save_state(there)
    accelerator.load_state(there)
    torch.save(1, f"{there}/one.pt")
    print(torch.load(f"{there}/one.pt"))
loop(20)
"""
PATCHED = (
    """
import gc, sys
import torch
import diagnose.probes.bootstrap.sitecustomize
torch.manual_seed(0)
torch.nn.Module.compile = lambda self: None  # which would take a while
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)
    def forward(self, x):
        return self.net(x)
model = Net()
torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.ones(64, 8))
for _ in range(2):
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, shuffle=True):
        parallel(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
torch.distributed.destroy_process_group()
print("trained", round(model.net.weight.sum().item(), 2))
""",
    {
        "optimizer": {"fused": True},
        "dataloader": {"num_workers": 1, "persistent_workers": True},
        "ddp": {"static_graph": True},
        "torch": {"float32_matmul_precision": "high", "compile": True},
        "gc": {"every_steps": 5},
    },
)
QUIET = """
from transformers.trainer_callback import PrinterCallback
quiet = trainer(save_strategy="no")
quiet.remove_callback(PrinterCallback)
quiet.train()
"""
PATCHED_TRAINER = (
    TRAINER.replace("import torch\n", "import torch\nimport diagnose.probes.bootstrap.sitecustomize\n", 1)
    + """
from accelerate import Accelerator
Accelerator(cpu=True)
model = LlamaForCausalLM._from_config(config)
"""
    + QUIET
    + "print('trained')\n",
    {
        "training_arguments": {"logging_steps": 3},
        "collator": {"padding": "longest"},
        "model_kwargs": {"attn_implementation": "eager"},
        "accelerator": {"mixed_precision": "no"},
    },
)
TRAINS = QUIET + "print(sum(p.sum().item() for p in model.parameters()))\n"
ONE_WINDOW = {"memory": True, "token": "t", "at_step": 4}
ARMED = {"armed": {"every": 12, "signal": "SIGUSR1"}}
JOBS: dict[str, tuple[str, dict[str, object], dict[str, dict[str, object]] | None]] = {
    "bare": (BARE.replace("import torch\n", "import torch\n" + CUDA, 1) + BARE_JOB, ONE_WINDOW, None),
    "armed": (BARE + BARE_JOB, ARMED, None),
    "accelerate": (BARE + ACCELERATE, ONE_WINDOW, None),
    "start": (BARE + START, ONE_WINDOW, None),
    "trainer": (TRAINER + TRAINS, ONE_WINDOW, None),
    "patched": (PATCHED[0], ONE_WINDOW, PATCHED[1]),
    "patched trainer": (PATCHED_TRAINER[0], ONE_WINDOW, PATCHED_TRAINER[1]),
}
FRAMEWORKS = {
    "lightning": LIGHTNING + "trainer().fit(Plain(), loader(60))\nprint('trained')\n",
    "deepspeed": DEEPSPEED + "loop(engine(), 60)\nprint('trained')\n",
}


_NOT_THE_JOBS = (
    "diagnose:",
    "USDT:",
    "ERROR:",
    "[W",
    "nanobind:",
    " - ",
    "See https://nanobind",
)  # of the profiler, and of Triton at exit


def outcome(done: "subprocess.CompletedProcess[str]") -> tuple[int, str, list[str]]:
    """Exit code and output, without the probe's lines and those of torch's profiler, which ends some of them late."""
    theirs = [line for line in done.stderr.splitlines() if line and not line.startswith(_NOT_THE_JOBS)]
    return done.returncode, done.stdout, theirs


def broken(script: str, when: str) -> str:
    """The script with every hook raising, `when`: "before" or "after" it has done what it is for."""
    return f"WHEN = {when!r}\n{BROKEN}\n{script}"


def reached(folder: Path) -> set[str]:
    """The places whose hooks were called, and raised."""
    return set((folder / "reached").read_text().splitlines())


@cache
def without_us(script: str, fresh: bool) -> "subprocess.CompletedProcess[str]":
    """The script, which ends well by itself."""
    with TemporaryDirectory() as folder:
        plain = run(script, Path(folder), fresh=fresh)
    assert plain.returncode == 0, plain.stderr
    return plain


def ends_as_without_us(job: str, when: str, folder: Path) -> set[str]:
    """Run the job with us, hold it against what it is without, and say which places were reached."""
    script, window, patch = JOBS[job]
    (folder / "broken" / "out" / SCRATCH).mkdir(parents=True)  # as the command makes it
    done = run(broken(script, when), folder / "broken", window, patch=patch, fresh=patch is not None)

    assert outcome(done) == outcome(without_us(script, patch is not None))
    assert "injected" in done.stderr
    return reached(folder / "broken")


@pytest.mark.parametrize("job", JOBS)
def test_a_job_ends_as_without_us_where_no_hook_does_what_it_is_for(job: str, tmp_path: Path) -> None:
    if "trainer" in job or job == "accelerate":
        needs("transformers", "accelerate")
    if job == "start":
        needs("transformers", "accelerate", "datasets")

    assert ends_as_without_us(job, "before", tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("begin", real_and_in_order("lightning", "lightning_order"))
def test_lightning_trains_as_without_us_whatever_hook_raises(begin: str, when: str, tmp_path: Path) -> None:
    assert framework_ends_as_without_us(begin, "lightning", when, tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("begin", real_and_in_order("deepspeed", "deepspeed_order"))
def test_deepspeed_trains_as_without_us_whatever_hook_raises(begin: str, when: str, tmp_path: Path) -> None:
    assert framework_ends_as_without_us(begin, "deepspeed", when, tmp_path)


def framework_ends_as_without_us(begin: str, name: str, when: str, folder: Path) -> set[str]:
    """As `ends_as_without_us`; a framework's own messages hold times and are not compared."""
    script, fresh = begin + FRAMEWORKS[name], not begin
    done = run(broken(script, when), folder / "broken", ONE_WINDOW, fresh=fresh)

    assert (done.returncode, done.stdout) == (0, without_us(script, fresh).stdout), done.stderr
    assert "Traceback" not in done.stderr
    return reached(folder / "broken")


def test_each_place_that_hands_something_over_was_made_to_raise(tmp_path: Path) -> None:
    """Those of `diagnose data`, whose jobs do not train, are tried with it."""
    needs("transformers", "accelerate", "datasets")
    found = set()
    for job in JOBS:
        found |= ends_as_without_us(job, "after", tmp_path / job)
    for name, stand_in in (("lightning", "lightning_order"), ("deepspeed", "deepspeed_order")):
        (begin,) = real_and_in_order(name, stand_in)[1].values  # type: ignore[attr-defined]
        found |= framework_ends_as_without_us(begin, name, "after", tmp_path / name)

    assert {site for site in sites() if not site.startswith("pipeline/")} - found == set()


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_the_job_raises_goes_through_hooks_that_raise(when: str, tmp_path: Path) -> None:
    during = "def during(number):\n    if number == 7:\n        raise ValueError('of the job')\n"
    in_a_loader = "class Data:\n    def __len__(self):\n        return 64\n    def __getitem__(self, at):\n" + (
        "        if at > 20:\n            raise KeyError('of the dataset')\n        return torch.ones(8)\n"
    )
    over_it = in_a_loader + "def loader(steps):\n    return torch.utils.data.DataLoader([(x,) for x in Data()])\n"
    ends = [run(broken(BARE + body + "loop()\n", when), tmp_path, {"at_step": 6}) for body in (during, over_it)]

    assert [done.returncode for done in ends] == [1, 1]
    assert [done.stderr.count("Traceback") for done in ends] == [1, 1]
    assert "ValueError: of the job" in ends[0].stderr
    assert "KeyError: 'of the dataset'" in ends[1].stderr
