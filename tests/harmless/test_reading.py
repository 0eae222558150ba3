"""The probe reads what torch and transformers hold, and runs no line of the job's own classes."""

import json
from pathlib import Path
from typing import Any

import pytest
from capture.bundles import facts
from capture.scripts import BARE, TRAINER, run, said
from needs import needs

needs("torch")

# Every method and property below that the plain loop does not call ends the job when it is called.
OWN = """
import collections
calls = collections.Counter()
def ends(name, value=None):
    def call(*given, **named):
        calls[name] += 1
        if guarding:
            raise SystemExit("called: " + name)
        return value
    return call
guarding = False
class Rows(torch.utils.data.Dataset):
    __len__ = lambda self: calls.update(["len"]) or 60
    def __getitem__(self, index):
        return torch.randn(8)
class Batch(dict):
    items = keys = values = __iter__ = __len__ = ends("batch")
class Model(nn.Sequential):
    config = property(ends("config"))
    parameters = ends("parameters")
    named_parameters = modules = named_modules = buffers = state_dict = parameters
    def __getattr__(self, name):
        if name in ("config", "_attn_implementation", "hf_device_map"):
            ends("getattr " + name)()
        return super().__getattr__(name)
class Adam(torch.optim.AdamW):
    __len__ = __bool__ = __eq__ = ends("optimizer")
    __hash__ = object.__hash__
class Loader(torch.utils.data.DataLoader):
    __len__ = ends("loader")
rows = Rows()
model = Model(nn.Linear(8, 16), nn.Linear(16, 1))
optimizer = Adam([p for part in model._modules.values() for p in part.parameters()])
guarding = True
for batch in Loader(rows, batch_size=2, collate_fn=lambda rows: Batch(input_ids=torch.stack(rows))):
    model(dict.__getitem__(batch, "input_ids")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
guarding = False
print(sorted(calls.items()))
"""


def test_no_method_of_the_jobs_objects_is_called(tmp_path: Path) -> None:
    expected = run(BARE + OWN, tmp_path / "plain")
    done = run(BARE + OWN, tmp_path / "probed", {})

    assert (expected.returncode, expected.stderr) == (0, "")
    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
    known = facts(tmp_path / "probed" / "out")
    assert known["model"]["class"] == "Model"
    assert known["model"]["parameters"] == known["optimizer"]["parameters"] == 8 * 16 + 16 + 16 + 1
    assert known["batch"]["shapes"] == {"input_ids": [2, 8]}
    assert known["dataloader"]["batch_size"] == 2


@pytest.mark.parametrize("error", ["SystemExit(9)", "KeyError('x')", "GeneratorExit", "MemoryError"])
def test_a_fact_that_cannot_be_had_costs_the_fact(error: str, tmp_path: Path) -> None:
    """Whatever is raised below the probe by no signal handler is the probe's own."""
    broken = (
        "from diagnose.probes.facts import model as of_models, record\n"
        f"def raises(*given, **named):\n    raise {error}\n"
        "record.model_facts = record.cores = of_models.held = raises\n"
    )
    done = run(BARE + broken + "loop()\nprint('trained')\n", tmp_path, {})

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert facts(tmp_path / "out")["model"] is None
    assert said(done) == []


def test_the_facts_of_a_trainer_are_those_of_its_objects(tmp_path: Path) -> None:
    needs("transformers")
    own = (
        "from transformers import TrainerCallback\n"
        "class Asked(TrainerCallback):\n"
        "    def __getattr__(self, name):\n        print('asked for', name)\n        raise AttributeError(name)\n"
        "class Strict(Own):\n"
        "    def add_callback(self, callback):\n        print('added', type(callback).__name__)\n"
        "made = Strict(model=model, callbacks=[Asked()], train_dataset=data, args=TrainingArguments(sys.argv[1],\n"
        "    max_steps=20, report_to=[], use_cpu=True, disable_tqdm=True, per_device_train_batch_size=2,\n"
        "    save_strategy='no', logging_strategy='no'))\n"
        "made.train()\nprint('trained')\n"
    )
    expected = run(TRAINER + own, tmp_path / "plain")
    done = run(TRAINER + own, tmp_path, {})

    assert expected.returncode == 0, expected.stderr
    assert done.returncode == 0, done.stderr
    assert _without_times(done.stdout) == _without_times(expected.stdout)
    known = facts(tmp_path / "out")
    assert known["training_arguments"]["per_device_train_batch_size"] == 2
    assert known["training_arguments"]["save_strategy"] == "no"
    assert known["model"]["config"]["hidden_size"] == 16
    assert known["model"]["attn_implementation"] == "sdpa"


def _without_times(text: str) -> list[str]:
    """Without what has a time of day too, as lines that DeepSpeed logs where it is installed."""
    return [line for line in text.splitlines() if "train_runtime" not in line and not line.startswith("[2")]


def test_sizes_agree_with_what_the_objects_say_of_themselves() -> None:
    transformers: Any = pytest.importorskip("transformers")
    from diagnose.probes import introspection

    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=32, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)

    assert sum(map(introspection.size, introspection.parameters(model))) == sum(p.numel() for p in model.parameters())
    assert [id(m) for m in introspection.modules(model)] == [id(m) for m in model.modules()]
    for name in ("hidden_size", "n_embd", "num_hidden_layers", "use_cache", "model_type", "_attn_implementation"):
        assert introspection.setting(config, name) == getattr(config, name, None), name


def test_lengths_that_torch_holds_are_known_and_those_of_the_job_are_not() -> None:
    torch: Any = pytest.importorskip("torch")
    from diagnose.probes.introspection import loader_length

    class Own(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            raise AssertionError

    data = torch.utils.data
    rows = data.TensorDataset(torch.zeros(10, 2))
    parts = data.ConcatDataset([rows, data.Subset(rows, [1, 2, 3])])

    assert loader_length(data.DataLoader(rows, batch_size=4)) == 3
    assert loader_length(data.DataLoader(rows, batch_size=4, drop_last=True, shuffle=True)) == 2
    assert loader_length(data.DataLoader(parts, batch_size=None)) == 13
    assert loader_length(data.DataLoader([0] * 5, batch_size=2)) == 3
    assert loader_length(data.DataLoader(Own(), batch_size=2)) is None
    assert json.dumps(loader_length(object())) == "null"
