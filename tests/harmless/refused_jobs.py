"""A small job for each reason to refuse a change: what it runs, the patch it is given, and what a rule would advise.

`told` is what stands in the reason, or the beginning of it; `read` says whether reading alone finds it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from diagnose.probes.apply.reasons import Reason

BARE = """
import multiprocessing, os, random, sys, torch
import diagnose.probes.bootstrap.sitecustomize  # as in a process of `diagnose run --apply`
from torch.utils.data import *
torch.set_num_threads(1)
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
class Numbers(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return torch.tensor([float(i)])
def train(loader=None, optimizer=None, model=model, steps=30):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=1e-9)
    while steps:
        for batch in [torch.ones(4, 1)] if loader is None else loader:
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            steps -= 1
            if not steps:
                return
"""
TRAINER = """
import os, sys, torch
import diagnose.probes.bootstrap.sitecustomize  # as in a process of `diagnose run --apply`
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
torch.set_num_threads(1)
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64)
rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 64
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield rows[0]
class Computed(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return rows[i]
def made(**more):
    return TrainingArguments(output_dir=os.path.join(sys.argv[1], "o"), max_steps=30, report_to=[], use_cpu=True,
                             disable_tqdm=True, per_device_train_batch_size=2, save_strategy="no", **more)
def train(args=None, data=rows, model=None, **more):
    model = model or LlamaForCausalLM._from_config(config)
    Trainer(model=model, args=args or made(), train_dataset=data, **more).train()
"""


@dataclass(frozen=True)
class Job:
    """A job that has the reason; `advised` is the change in the words of rules."""

    body: str
    patch: dict[str, dict[str, object]]
    advised: tuple[str, str, object]
    told: str = ""
    read: bool = True
    start: str = BARE

    @property
    def script(self) -> str:
        """What runs."""
        return self.start + textwrap.dedent(self.body)


def _workers(body: str, told: str = "", read: bool = True) -> Job:
    advised = "training_arguments", "dataloader_num_workers", 2
    return Job(body, {"dataloader": {"num_workers": 2}}, advised, told, read)


def _loader(key: str, value: object, body: str, told: str = "", read: bool = True) -> Job:
    return Job(body, {"dataloader": {key: value}}, ("training_arguments", f"dataloader_{key}", value), told, read)


def _trainer(key: str, value: object, body: str, told: str = "", read: bool = True) -> Job:
    return Job(body, {"training_arguments": {key: value}}, ("training_arguments", key, value), told, read, TRAINER)


def _torch(target: str, key: str, advised: tuple[str, object], body: str, told: str = "", read: bool = True) -> Job:
    values = {"optimizer": True, "torch": True, "accelerator": "inductor"}
    return Job(body, {target: {key: values[target]}}, ("training_arguments", *advised), told, read)


def _compiled(body: str, told: str = "", read: bool = True) -> Job:
    return _torch("torch", "compile", ("torch_compile", True), body, told, read)


FUSED, SEARCHED = ("optim", "adamw_torch_fused"), ("cudnn_benchmark", True)
GROUPED = "train_sampling_strategy", "group_by_length"
STREAM = """
class Stream(IterableDataset):
    def __iter__(self):
        {}
        while True:
            yield torch.tensor([1.0])
"""
SPLITTING = STREAM.format("torch.utils.data.get_worker_info()")
ON_META = """
class Held(Numbers):
    table = None
    def __init__(self):
        self.table = torch.empty(3, device="meta")
"""
OWN_MODEL = """
class Own(LlamaForCausalLM):
    {}
train(model=Own._from_config(config))
"""

JOBS: dict[Reason, Job] = {
    Reason.REPEATED: _workers(STREAM.format("pass") + "train(DataLoader(Stream(), 4))"),
    Reason.ON_A_DEVICE: _workers(ON_META + "train(DataLoader(Held(), 4))"),
    Reason.OPEN_FILE: _workers(
        """
        class Lines(Numbers):
            def __init__(self):
                self.file = open(__file__)
        train(DataLoader(Subset(Lines(), range(9)), 4))
        """,
        "file",
    ),
    Reason.KEEPS_A_STATE: _workers(
        """
        class Reader(Numbers):
            rows = iter(range(1000))
            def __getitem__(self, i):
                return torch.tensor([float(next(self.rows))])
        train(DataLoader(Reader(), 4))
        """,
        read=False,
    ),
    Reason.NOT_FETCHED: _workers(
        """
        class Rows(list):
            def __reduce__(self):
                raise TypeError("not to be sent")
        class Stack(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model
            def forward(self, rows):
                return self.inner(torch.stack(list(rows)))
        train(DataLoader(Numbers(), 4, collate_fn=Rows), model=Stack())
        """,
        "TypeError: not to be sent",
        read=False,
    ),
    Reason.SPLIT_OTHERWISE: _workers(SPLITTING + "train(DataLoader(Stream(), 4))"),
    Reason.NOT_FORKED: _workers(
        "multiprocessing.set_start_method('spawn', force=True)\ntrain(DataLoader(Numbers(), 4))", "spawn"
    ),
    Reason.SAMPLER_DRAWS: _workers(
        """
        class Drawing(Sampler):
            def __len__(self):
                return 8
            def __iter__(self):
                return (int(torch.randint(23, ())) for _ in range(8))
        train(DataLoader(Numbers(), 4, sampler=Drawing()))
        """,
        "Drawing",
    ),
    Reason.ANOTHER_ORDER: _workers(
        """
        class Noisy(Numbers):
            def __getitem__(self, i):
                return super().__getitem__(i) + torch.rand(1)
        train(DataLoader(Noisy(), 4, shuffle=True))
        """,
        read=False,
    ),
    Reason.NOT_TRIED: _workers(
        "del os.fork\ntrain(DataLoader(Numbers(), 4))", "this system forks no process to try a sample in", read=False
    ),
    Reason.WORKERS_STAY: _loader(
        "num_workers",
        0,
        "train(DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True))",
        "persistent_workers or prefetch_factor",
        read=False,
    ),
    Reason.NEEDS_WORKERS: _loader("prefetch_factor", 4, "train(DataLoader(Numbers(), 4))", "num_workers"),
    Reason.PINS_A_DEVICE: _loader("pin_memory", True, ON_META + "train(DataLoader(Held(), 4))"),
    Reason.NOTHING_TO_PIN_FOR: _loader("pin_memory", True, "train(DataLoader(Numbers(), 4))"),
    Reason.LATER_PASSES: _loader(
        "persistent_workers",
        False,
        "train(DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True))",
        read=False,
    ),
    Reason.STREAM_GOES_ON: _loader(
        "persistent_workers", True, SPLITTING + "train(DataLoader(Stream(), 4, num_workers=1))"
    ),
    Reason.NO_ARGUMENT: _trainer(
        "ddp_static_graph",
        True,
        "del TrainingArguments.__dataclass_fields__['ddp_static_graph']  # as in a version without it\ntrain()",
        "transformers",
    ),
    Reason.RAISES: _torch(
        "optimizer",
        "fused",
        FUSED,
        "train(None, torch.optim.AdamW(model.parameters(), foreach=True))",
        "RuntimeError: `fused` and `foreach` cannot be `True` together.",
        read=False,
    ),
    Reason.MADE_OTHERWISE: _trainer(
        "torch_compile", False, "train(made(torch_compile=True, torch_compile_backend='eager'))", "True", read=False
    ),
    Reason.MODEL_TAKES: Job(
        OWN_MODEL.format("def get_correct_attn_implementation(self, *args, **more): return 'eager'"),
        {"model_kwargs": {"attn_implementation": "sdpa"}},
        ("model_kwargs", "attn_implementation", "sdpa"),
        "eager",
        read=False,
        start=TRAINER,
    ),
    Reason.NO_CHECKPOINTING: _trainer(
        "gradient_checkpointing", True, OWN_MODEL.format("supports_gradient_checkpointing = False"), "Own"
    ),
    Reason.NO_LENGTHS: _trainer(
        *GROUPED,
        "train(data=[{'labels': [1, 2], 'chosen_ids': [1, 2]}] * 64, data_collator=lambda rows: {"
        "k: torch.tensor([row[v] for row in rows]) for k, v in [('input_ids', 'chosen_ids'), ('labels', 'labels')]},"
        " args=made(remove_unused_columns=False))",
        "input_ids",
    ),
    Reason.STREAM_NOT_GROUPED: _trainer(*GROUPED, "train(data=Stream())"),
    Reason.UNLISTED: _trainer(*GROUPED, "train(data=Computed())"),
    Reason.ANOTHER_OPTIMIZER: _trainer(*FUSED, "train(made(optim='sgd'))"),
    Reason.ONE_PRECISION: _trainer("fp16", True, "train(made(bf16=True))", "bf16"),
    Reason.NO_TF32: _trainer("tf32", True, "train()"),
    Reason.OF_DEEPSPEED: _trainer(
        "gradient_accumulation_steps",
        4,
        "args = made()\nargs.gradient_accumulation_steps = 1\n"
        "args.deepspeed = {'gradient_accumulation_steps': 1}\ntrain(args)",
        "gradient_accumulation_steps",
    ),
    Reason.IN_DEEPSPEED_FILE: _trainer(
        "gradient_accumulation_steps",
        4,
        "args = made()\nargs.gradient_accumulation_steps, args.deepspeed = 1, 'ds.json'\ntrain(args)",
        "gradient_accumulation_steps",
    ),
    Reason.NO_ATTENTION: Job(
        OWN_MODEL.format("_supports_sdpa = False"),
        {"model_kwargs": {"attn_implementation": "sdpa"}},
        ("model_kwargs", "attn_implementation", "sdpa"),
        "Own",
        start=TRAINER,
    ),
    Reason.DYNAMO_PLUGIN: _torch(
        "accelerator",
        "dynamo_backend",
        ("torch_compile", True),
        """
        from accelerate import Accelerator
        from accelerate.utils import TorchDynamoPlugin
        accelerator = Accelerator(cpu=True, dynamo_plugin=TorchDynamoPlugin(backend="eager"))
        ready, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-9))
        train(None, optimizer, ready)
        """,
    ),
    Reason.NO_LIGER: _trainer("use_liger_kernel", True, "sys.modules['liger_kernel'] = None\ntrain()"),
    Reason.MADE_BEFORE: _trainer(
        "logging_steps", 50, "args = made()\nargs.logging_steps, args.deepspeed = 7, {'a': 1}\ntrain(args)", read=False
    ),
    Reason.NO_FORM: _torch(
        "optimizer", "fused", FUSED, "train(None, torch.optim.Adamax(model.parameters()))", "Adamax"
    ),
    Reason.COMPILED: _compiled("train(model=torch.compile(model, backend='eager'))"),
    Reason.NO_COMPILER: _compiled(
        "os.environ.pop('CXX', None)\nos.environ['PATH'] = '/nowhere'\ntrain()", "there is no C++ compiler"
    ),
    Reason.DETERMINISTIC: _torch(
        "torch", "cudnn_benchmark", SEARCHED, "torch.use_deterministic_algorithms(True)\ntrain()"
    ),
    Reason.NO_CUDNN: _torch("torch", "cudnn_benchmark", SEARCHED, "train()"),
    Reason.SHARDED: _compiled(
        """
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0")
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        train()
        """,
    ),
    Reason.OF_TORCH: _compiled("train()", "Sequential"),
    Reason.NO_MODULE: _compiled(
        "other = torch.nn.Linear(1, 1)\n"
        "train(None, torch.optim.SGD([*model.parameters(), *other.parameters()], lr=1e-9))"
    ),
    Reason.NOT_CALLED: _compiled(
        """
        class Around(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model
            def forward(self, x):
                return self.inner(x)
        around = Around()
        weights = [around.inner[0].weight, around.inner[0].bias, around.inner[2].weight, around.inner[2].bias]
        train(None, torch.optim.SGD(weights, lr=1e-9), model.forward)
        """,
        read=False,
    ),
    Reason.LOADED_STATE: _torch(
        "optimizer",
        "fused",
        FUSED,
        """
        optimizer = torch.optim.AdamW(model.parameters())
        state = optimizer.state_dict()
        state["param_groups"][0]["fused"] = None
        optimizer.load_state_dict(state)
        train(None, optimizer)
        """,
        read=False,
    ),
    Reason.SET_SINCE: Job(
        """
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        for _ in range(30):
            train(None, optimizer, steps=1)
            torch.set_float32_matmul_precision("highest")
        """,
        {"torch": {"float32_matmul_precision": "high"}},
        ("training_arguments", "tf32", True),
        "highest",
        read=False,
    ),
    Reason.COLLECTS_AGAIN: Job(
        "import gc\noptimizer = torch.optim.SGD(model.parameters(), lr=1e-9)\n"
        "train(None, optimizer, steps=1)\ngc.enable()\ntrain(None, optimizer)",
        {"gc": {"every_steps": 100}},
        ("training_arguments", "gc_every_steps", 100),
        read=False,
    ),
    Reason.NEVER_MADE: Job(
        "train()",
        {"ddp": {"gradient_as_bucket_view": True}},
        ("ddp", "gradient_as_bucket_view", True),
        "no DistributedDataParallel was made",
        read=False,
    ),
    Reason.OTHER_VARIABLE: Job(
        "train()", {"environment": {"NCCL_DEBUG": "WARN"}}, ("environment", "NCCL_DEBUG", "WARN"), read=False
    ),
}
"""By reason: one that is not here fails the test that walks over them."""
