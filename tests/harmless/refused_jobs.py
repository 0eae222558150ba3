"""A small job for each reason to refuse a change.

`told` is what stands in the reason, or the beginning of it; `read` says whether reading alone finds it.
"""

from __future__ import annotations

from harmless.refused_job import TRAINER, Job, of_collator, of_compiling, of_loader, of_torch, of_trainer, of_workers

from diagnose.probes.apply.reasons import Reason

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
    Reason.REPEATED: of_workers(STREAM.format("pass") + "train(DataLoader(Stream(), 4))"),
    Reason.ON_A_DEVICE: of_workers(ON_META + "train(DataLoader(Held(), 4))"),
    Reason.OPEN_FILE: of_workers(
        """
        class Lines(Numbers):
            def __init__(self):
                self.file = open(__file__)
        train(DataLoader(Subset(Lines(), range(9)), 4))
        """,
        "file",
    ),
    Reason.KEEPS_A_STATE: of_workers(
        """
        class Reader(Numbers):
            rows = iter(range(1000))
            def __getitem__(self, i):
                return torch.tensor([float(next(self.rows))])
        train(DataLoader(Reader(), 4))
        """,
        read=False,
    ),
    Reason.NOT_FETCHED: of_workers(
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
    Reason.SPLIT_OTHERWISE: of_workers(SPLITTING + "train(DataLoader(Stream(), 4))"),
    Reason.NOT_FORKED: of_workers(
        "multiprocessing.set_start_method('spawn', force=True)\ntrain(DataLoader(Numbers(), 4))", "spawn"
    ),
    Reason.SAMPLER_DRAWS: of_workers(
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
    Reason.ANOTHER_ORDER: of_workers(
        """
        class Noisy(Numbers):
            def __getitem__(self, i):
                return super().__getitem__(i) + torch.rand(1)
        train(DataLoader(Noisy(), 4, shuffle=True))
        """,
        read=False,
    ),
    Reason.NOT_TRIED: of_workers(
        "del os.fork\ntrain(DataLoader(Numbers(), 4))", "this system forks no process to try a sample in", read=False
    ),
    Reason.WORKERS_STAY: of_loader(
        "num_workers",
        0,
        "train(DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True))",
        "persistent_workers or prefetch_factor",
        read=False,
    ),
    Reason.NEEDS_WORKERS: of_loader("prefetch_factor", 4, "train(DataLoader(Numbers(), 4))", "num_workers"),
    Reason.PINS_A_DEVICE: of_loader("pin_memory", True, ON_META + "train(DataLoader(Held(), 4))"),
    Reason.NOTHING_TO_PIN_FOR: of_loader("pin_memory", True, "train(DataLoader(Numbers(), 4))"),
    Reason.LATER_PASSES: of_loader(
        "persistent_workers",
        False,
        "train(DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True))",
        read=False,
    ),
    Reason.STREAM_GOES_ON: of_loader(
        "persistent_workers", True, SPLITTING + "train(DataLoader(Stream(), 4, num_workers=1))"
    ),
    Reason.NO_ARGUMENT: of_trainer(
        "ddp_static_graph",
        True,
        "del TrainingArguments.__dataclass_fields__['ddp_static_graph']  # as in a version without it\ntrain()",
        "transformers",
    ),
    Reason.RAISES: of_torch(
        "optimizer",
        "fused",
        FUSED,
        "train(None, torch.optim.AdamW(model.parameters(), foreach=True))",
        "RuntimeError: `fused` and `foreach` cannot be `True` together.",
        read=False,
    ),
    Reason.MADE_OTHERWISE: of_trainer(
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
    Reason.NO_CHECKPOINTING: of_trainer(
        "gradient_checkpointing", True, OWN_MODEL.format("supports_gradient_checkpointing = False"), "Own"
    ),
    Reason.NO_LENGTHS: of_trainer(
        *GROUPED,
        "train(data=[{'labels': [1, 2], 'chosen_ids': [1, 2]}] * 64, data_collator=lambda rows: {"
        "k: torch.tensor([row[v] for row in rows]) for k, v in [('input_ids', 'chosen_ids'), ('labels', 'labels')]},"
        " args=made(remove_unused_columns=False))",
        "input_ids",
    ),
    Reason.NOT_CUT: of_collator("train()", "they have no attention_mask of samples x tokens"),
    Reason.NO_MASKS: of_collator("train(made(train_sampling_strategy='group_by_length'))"),
    Reason.STREAM_NOT_GROUPED: of_trainer(*GROUPED, "train(data=Stream())"),
    Reason.UNLISTED: of_trainer(*GROUPED, "train(data=Computed())"),
    Reason.ANOTHER_OPTIMIZER: of_trainer(*FUSED, "train(made(optim='sgd'))"),
    Reason.ONE_PRECISION: of_trainer("fp16", True, "train(made(bf16=True))", "bf16"),
    Reason.NO_TF32: of_trainer("tf32", True, "train()"),
    Reason.OF_DEEPSPEED: of_trainer(
        "gradient_accumulation_steps",
        4,
        "args = made()\nargs.gradient_accumulation_steps = 1\n"
        "args.deepspeed = {'gradient_accumulation_steps': 1}\ntrain(args)",
        "gradient_accumulation_steps",
    ),
    Reason.IN_DEEPSPEED_FILE: of_trainer(
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
    Reason.DYNAMO_PLUGIN: of_torch(
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
    Reason.NO_LIGER: of_trainer("use_liger_kernel", True, "sys.modules['liger_kernel'] = None\ntrain()"),
    Reason.NO_GPU_FOR_LIGER: of_trainer(
        "use_liger_kernel",
        True,
        """
        from importlib.machinery import ModuleSpec
        sys.modules["liger_kernel"] = liger = type(sys)("liger_kernel")
        liger.__spec__ = ModuleSpec("liger_kernel", None)
        train()
        """,
    ),
    Reason.MADE_BEFORE: of_trainer(
        "logging_steps", 50, "args = made()\nargs.logging_steps, args.deepspeed = 7, {'a': 1}\ntrain(args)", read=False
    ),
    Reason.NO_FORM: of_torch(
        "optimizer", "fused", FUSED, "train(None, torch.optim.Adamax(model.parameters()))", "Adamax"
    ),
    Reason.COMPILED: of_compiling("train(model=torch.compile(model, backend='eager'))"),
    Reason.NO_COMPILER: of_compiling(
        "os.environ.pop('CXX', None)\nos.environ['PATH'] = '/nowhere'\ntrain()", "there is no C++ compiler"
    ),
    Reason.DETERMINISTIC: of_torch(
        "torch", "cudnn_benchmark", SEARCHED, "torch.use_deterministic_algorithms(True)\ntrain()"
    ),
    Reason.NO_CUDNN: of_torch("torch", "cudnn_benchmark", SEARCHED, "train()"),
    Reason.SHARDED: of_compiling(
        """
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0")
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        train()
        """,
    ),
    Reason.OF_TORCH: of_compiling("train()", "Sequential"),
    Reason.NO_MODULE: of_compiling(
        "other = torch.nn.Linear(1, 1)\n"
        "train(None, torch.optim.SGD([*model.parameters(), *other.parameters()], lr=1e-9))"
    ),
    Reason.NOT_CALLED: of_compiling(
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
    Reason.LOADED_STATE: of_torch(
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
