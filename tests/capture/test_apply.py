"""`diagnose run --apply`: the unedited script runs with the patch, and what cannot be applied is refused and said."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from needs import needs

from diagnose.patch.patch_file import Request
from diagnose.probes.apply import constructors
from diagnose.probes.apply.job_patch import JobPatch
from diagnose.probes.protocol import PATCH

SCHEMA = Path(__file__).parents[2] / "diagnose" / "data" / "capture.schema.json"
RULES = Path(__file__).parents[2] / "rules"
Run = Callable[..., SimpleNamespace]


class Runs:
    """Runs scripts with `diagnose run` in a folder; keeps what they print and what was recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, body: str, patch: object, *options: str, **env: str) -> SimpleNamespace:
        (self.folder / "train.py").write_text(textwrap.dedent(body))
        (self.folder / "patch.json").write_text(json.dumps(patch))
        command = [sys.executable, "-m", "diagnose", "run", "--out", "b", "--json", "d.json", *options]
        given = ["--apply", "patch.json"] if patch is not None else []
        done = subprocess.run(
            [*command, *given, "--", "train.py"],
            cwd=self.folder, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        said = [line for line in done.stderr.splitlines() if line.startswith("diagnose: not applied")]
        return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr, said=said)

    def facts(self, folder: str = "b") -> dict[str, Any]:
        return json.loads((self.folder / folder / "capture-rank0.json").read_text())

    def loads_in_training(self) -> bool:
        """Whether the training process loads samples itself."""
        training, loading = ((self.folder / name).read_text().split() for name in ("training", "loading"))
        return {*training} <= {*loading}

    def waiting(self) -> float:
        """The share of data wait in the diagnosis."""
        ledger = json.loads((self.folder / "d.json").read_text())["ledger"]
        return sum(entry["share"] for entry in ledger if entry["class"] == "data")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


TRAINER = """
import os, time, torch
print(os.getpid(), file=open("training", "w"))
from transformers import AutoModelForCausalLM, LlamaConfig, Seq2SeqTrainingArguments, Trainer
torch.set_num_threads(1)
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64)
model = AutoModelForCausalLM.from_config(config)
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, i):
        time.sleep(0.02)
        with open("loading", "a") as file:
            print(os.getpid(), file=file)
        return {"input_ids": torch.arange(8), "labels": torch.arange(8)}
class Slow(Trainer):
    def compute_loss(self, *args, **kwargs):
        time.sleep(0.1)  # most of a step, for which the workers need less
        return super().compute_loss(*args, **kwargs)
args = Seq2SeqTrainingArguments(output_dir="o", max_steps=16, per_device_train_batch_size=8, report_to=[],
                                disable_tqdm=True, use_cpu=True, save_strategy="no")
Slow(model=model, args=args, train_dataset=Samples()).train()
"""
FOR_TRAINER = [
    {
        "target": "training_arguments",
        "set": {
            "dataloader_persistent_workers": True,
            "dataloader_num_workers": 2,
            "use_liger_kernel": True,
            "optim": "adamw_torch",
            "learning_rate": 1.0,
        },
    },
    {"target": "model_kwargs", "set": {"attn_implementation": "eager"}},
    {"target": "ddp", "set": {"static_graph": True}},
    {"target": "environment", "set": {"OMP_NUM_THREADS": 1, "PYTORCH_ALLOC_CONF": "expandable_segments:True"}},
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runs, SimpleNamespace]:
    """A Trainer with a slow loader, run with workers, another attention, and more that cannot be had."""
    needs("transformers", "accelerate")
    runs = Runs(tmp_path_factory.mktemp("trainer"))
    done = runs(TRAINER, FOR_TRAINER, "--at-step", "8")
    assert done.code == 0, done.err
    return runs, done


def test_what_was_applied_and_refused_is_recorded(trained: tuple[Runs, SimpleNamespace]) -> None:
    known = trained[0].facts()

    jsonschema.validate(known, json.loads(SCHEMA.read_text()))
    assert known["applied"] == {
        "training_arguments": {
            "optim": "adamw_torch",
            "dataloader_num_workers": 2,
            "dataloader_persistent_workers": True,
        },
        "model_kwargs": {"attn_implementation": "eager"},
        "environment": {"OMP_NUM_THREADS": 1, "PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    }
    assert [(entry["target"], entry["key"]) for entry in known["refused"]] == [
        ("training_arguments", "learning_rate"),
        ("training_arguments", "use_liger_kernel"),
        ("ddp", "static_graph"),
    ]


def test_what_was_applied_is_in_use(trained: tuple[Runs, SimpleNamespace]) -> None:
    known = trained[0].facts()

    assert (known["dataloader"]["num_workers"], known["dataloader"]["persistent_workers"]) == (2, True)
    assert known["model"]["attn_implementation"] == "eager"
    assert known["training_arguments"]["optim"] == "adamw_torch"
    assert known["environment"]["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


def test_every_refused_key_is_one_line(trained: tuple[Runs, SimpleNamespace]) -> None:
    no_gpu = "the job has no GPU, and Liger's kernels run on one alone"
    liger = no_gpu if find_spec("liger_kernel") is not None else "liger-kernel is not installed"

    assert trained[1].said == [
        "diagnose: not applied: learning_rate (it is not among the keys of training_arguments that can be set)",
        f"diagnose: not applied: use_liger_kernel ({liger})",
        "diagnose: not applied: static_graph (no DistributedDataParallel was made)",
    ]


LOADERS = """
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler
torch.set_num_threads(1)
data = [torch.full((4,), float(i)) for i in range(60)]
class Stream(IterableDataset):
    def __iter__(self):
        return iter(data[:6])
batched = DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(data), 2, False))
print(batched.num_workers, batched.persistent_workers, [int(x[0, 0]) for x in batched] == list(range(0, 60, 2)))
stream = DataLoader(Stream(), 2)
print(stream.num_workers, len(list(stream)))
"""
KINDS = """
from transformers import Trainer, TrainingArguments
from transformers.modeling_utils import PreTrainedModel
from torch.nn.parallel import DistributedDataParallel
kinds = (DataLoader.__init__, DistributedDataParallel.__init__, Trainer.__init__, TrainingArguments.__post_init__,
         PreTrainedModel.from_pretrained.__func__, PreTrainedModel._from_config.__func__)
import sys
print(any(hasattr(kind, "__diagnose_apply__") for kind in kinds), [n for n in sys.modules if "probes.apply_t" in n])
"""


@pytest.fixture(scope="module")
def unpatched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runs, SimpleNamespace]:
    """The same Trainer and more without a patch, in an environment that holds that of another run."""
    needs("transformers", "accelerate")
    runs = Runs(tmp_path_factory.mktemp("unpatched"))
    leftover = Request({"dataloader": {"num_workers": 2}}).to_json()
    done = runs(TRAINER + LOADERS + KINDS, None, "--at-step", "8", **{PATCH: leftover})
    assert done.code == 0, done.err
    return runs, done


def test_with_the_patch_others_load_what_training_waits_for(
    trained: tuple[Runs, SimpleNamespace], unpatched: tuple[Runs, SimpleNamespace]
) -> None:
    assert (unpatched[0].loads_in_training(), trained[0].loads_in_training()) == (True, False)


@pytest.mark.slow
def test_the_wait_for_data_is_gone(
    trained: tuple[Runs, SimpleNamespace], unpatched: tuple[Runs, SimpleNamespace]
) -> None:
    plain, patched = unpatched[0], trained[0]

    assert plain.waiting() > 0.25
    assert patched.waiting() < plain.waiting()  # by far, but where a busy machine makes a worker late


def test_without_a_patch_nothing_is_patched_whatever_the_environment_holds(
    unpatched: tuple[Runs, SimpleNamespace],
) -> None:
    plain, done = unpatched

    assert "\n0 False True\n0 3\nFalse []\n" in done.out
    assert (plain.facts()["applied"], plain.facts()["refused"]) == (None, [])


DDP = """
import os
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("rendezvous"), rank=0, world_size=1)
plain = DataLoader(data, 2, False, None, None, 0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in plain:
    model(batch).mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
FOR_LOADERS = {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 3}
FOR_DDP = {"find_unused_parameters": False, "gradient_as_bucket_view": True, "bucket_cap_mb": 50}


@pytest.fixture(scope="module")
def looped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runs, SimpleNamespace]:
    """A bare loop over a loader and a model in DistributedDataParallel, run with both patched."""
    needs("torch")
    runs = Runs(tmp_path_factory.mktemp("loop"))
    patch = [{"target": "dataloader", "set": FOR_LOADERS}, {"target": "ddp", "set": FOR_DDP}]
    done = runs(LOADERS + DDP, patch, "--at-step", "8", "--no-report")
    assert done.code == 0, done.err
    return runs, done


def test_loaders_of_a_bare_loop_are_patched_where_that_is_safe(looped: tuple[Runs, SimpleNamespace]) -> None:
    known, done = looped[0].facts(), looped[1]

    assert done.out == "2 True True\n0 3\n"
    assert known["applied"]["dataloader"] == FOR_LOADERS
    assert {key: known["dataloader"][key] for key in FOR_LOADERS} == FOR_LOADERS
    assert (
        done.said[0] == "diagnose: not applied: num_workers (each worker would repeat the data of an IterableDataset)"
    )
    assert [(entry["target"], entry["key"]) for entry in known["refused"]] == [
        ("dataloader", key) for key in FOR_LOADERS
    ]


def test_ddp_is_made_with_the_patch(looped: tuple[Runs, SimpleNamespace]) -> None:
    known = looped[0].facts()

    assert known["applied"].keys() == {"dataloader", "ddp"}
    assert known["applied"]["ddp"] == FOR_DDP
    assert {key: known["ddp"][key] for key in FOR_DDP} == FOR_DDP


class Made:
    """A constructor that rejects one value."""

    def __init__(self, size: int = 1) -> None:
        if size > 3:
            raise ValueError("too\nlarge")
        self.size = size


def test_a_constructor_that_fails_with_the_patch_runs_without_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    patch = JobPatch({"dataloader": {"size": 9}})
    monkeypatch.setattr(constructors, "job_patch", lambda: patch)
    monkeypatch.setattr(constructors, "session", lambda: object())
    kind = type("Copy", (Made,), {"__init__": Made.__init__})
    constructors.patched_init(kind, "dataloader", lambda patch, given: constructors.values_for(patch, "dataloader"))

    assert kind(size=2).size == 2
    assert patch.facts() == {
        "applied": {},
        "refused": [
            {
                "target": "dataloader",
                "key": "size",
                "because": "ValueError: too",
                "binds": "job",
                "unless_set": None,
                "value": None,
            }
        ],
        "expected": None,
    }
    assert capfd.readouterr().err == "diagnose: not applied: size (ValueError: too)\n"


def test_whether_a_patch_arrived_is_not_guessed(runs: Runs) -> None:
    done = runs("print('trained')", {"target": "ddp", "set": {"static_graph": True}})

    assert (done.code, done.out) == (0, "trained\n")
    assert done.err.splitlines()[-1] == "diagnose: whether the patch was applied is not known: nothing was captured"
