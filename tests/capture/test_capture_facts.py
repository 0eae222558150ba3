"""capture-rank{R}.json: it follows its schema, and nothing secret is ever in the bundle."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from capture.bundles import facts
from capture.scripts import BARE, TRAINER, run
from needs import needs

from diagnose.probes.facts import machine
from diagnose.probes.facts.machine import environment
from diagnose.probes.facts.model import model_facts
from diagnose.probes.facts.padding import PaddingSums
from diagnose.probes.facts.record import batch_facts
from diagnose.probes.facts.rows import RowSums
from diagnose.probes.introspection import plain
from diagnose.probes.trainers.transformers_trainer import settings_of

jsonschema = pytest.importorskip("jsonschema")
torch = pytest.importorskip("torch")

SCHEMA = Path(__file__).parents[2] / "diagnose" / "data" / "capture.schema.json"
TOKEN = "hf_PlantedSecret0123456789"


def check(known: dict[str, Any]) -> None:
    jsonschema.validate(known, json.loads(SCHEMA.read_text()))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a run that holds a token wherever a job may hold one."""
    needs("transformers")
    folder = tmp_path_factory.mktemp("planted")
    script = TRAINER + (
        f"token = '{TOKEN}'\n"
        "model.config._name_or_path = model.name_or_path = token\n"
        "model.config.api_key = token\n"
        f"made = trainer(hub_token=token, hub_model_id='someone/' + token, run_name=token)\n"
        "made.train()\n"
    )
    secrets = dict.fromkeys(
        ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "NCCL_SECRET", "SLURM_JOB_NAME"), TOKEN
    )
    done = run(script, folder, {}, fresh=False, **secrets, SLURM_JOB_ID="77", NCCL_DEBUG="WARN")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_no_byte_of_the_bundle_holds_a_planted_token(planted: Path) -> None:
    files = list(planted.iterdir())

    assert len(files) == 4
    for file in files:
        content = file.read_bytes()
        assert TOKEN.encode() not in (gzip.decompress(content) if file.suffix == ".gz" else content), file.name


def test_the_facts_follow_the_schema(planted: Path) -> None:
    known = facts(planted)

    check(known)
    assert known["slurm"] == {"SLURM_JOB_ID": "77"}
    assert known["environment"] == {"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "WARN"}
    assert known["versions"]["torch"] == torch.__version__
    assert known["profiler"]["record_shapes"] is True


def test_a_window_that_records_nothing_by_choice_follows_the_schema_too(tmp_path: Path) -> None:
    run(BARE + "loop()\n", tmp_path, {"skip": 1, "budget_bytes": 1000, "sample_steps": 0})
    known = facts(tmp_path / "out")

    check(known)
    assert (known["profiler"], known["error"], known["recording"]["steps"]) == (None, None, 0)


def test_a_bare_loop_that_never_reached_its_window_follows_the_schema_too(tmp_path: Path) -> None:
    run(BARE + "loop(3)\n", tmp_path, {"at_step": 50})
    known = facts(tmp_path / "out")

    check(known)
    assert known["training_arguments"] is None
    assert known["recording"] is None
    assert known["overhead_factor"] is None
    assert "before a step was recorded" in known["error"]
    assert known["optimizer"]["class"] == "AdamW"


@pytest.mark.parametrize("value", ["/home/me/data", "https://host/x?key=1", TOKEN * 2, ["a"], object(), float("nan")])
def test_paths_addresses_and_objects_are_no_settings(value: object) -> None:
    assert plain(value) is None


@pytest.mark.parametrize("value", [True, 3, 0.5, "adamw_torch_fused", None])
def test_numbers_flags_and_words_are_kept(value: object) -> None:
    assert plain(value) == value


def test_only_listed_arguments_are_read() -> None:
    arguments = SimpleNamespace(bf16=True, hub_token=TOKEN, output_dir="/secret", fsdp="", optim="sgd")

    assert settings_of(arguments) == {"bf16": True, "optim": "sgd", "fsdp": False, "deepspeed": False}


def test_only_listed_variables_with_plain_values_are_read() -> None:
    given = {"NCCL_ALGO": "Ring", "NCCL_SECRET": "x", "NCCL_PROTO": "/etc/conf", "HF_TOKEN": TOKEN}

    assert environment(given) == {"NCCL_ALGO": "Ring"}


def test_tokens_are_a_mean_and_padding_a_sum_over_all_batches() -> None:
    batches = [{"shapes": {"input_ids": [2, n]}, "bytes": 16 * n, "tokens": 2 * n} for n in (8, 4)]
    padding = PaddingSums()
    for lengths, width in (((8, 2), 8), ((4, 4), 4), ((1, 2), 4)):
        padding.note(torch.tensor([[1] * n + [0] * (width - n) for n in lengths]))

    assert batch_facts(batches, padding, RowSums()) == {
        "shapes": {"input_ids": [2, 4]},
        "bytes": 64,
        "tokens": 12,
        "batches_seen": 2,
        "padding_share": 11 / 32,
        "padding": {
            "batches": 3,
            "tokens": 32,
            "padded_tokens": 11,
            "beyond_longest_tokens": 4,
            "share_error": pytest.approx(0.1373, abs=1e-4),
            "least_share": 0.0,
            "most_share": 5 / 8,
            "least_length": 4,
            "most_length": 8,
            "most_beyond_longest": 2,
            "samples_by_tokens": [[1, 1], [2, 2], [4, 2], [8, 1]],
        },
        "rows": None,
    }


def test_frozen_and_half_precision_parameters_are_told_apart() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 2, bias=False).bfloat16())
    model[0].weight.requires_grad_(False)
    known = model_facts(model)

    assert known is not None
    assert (known["parameters"], known["trainable"], known["embedding_parameters"]) == (48, 8, 40)
    assert known["dtypes"] == {"float32": 40, "bfloat16": 8}


COMPILED = """
import torch
from diagnose.probes.facts.model import wrapped_facts
inside = torch.nn.Linear(2, 2)
outside = torch.compile(inside)
print(*[wrapped_facts(model)["compiled"] for model in (inside, outside)], wrapped_facts(torch.nn.Linear(2, 2)))
"""


def test_a_compiled_model_is_known_from_the_model_inside(tmp_path: Path) -> None:
    known = run(COMPILED, tmp_path).stdout

    assert known == "True True {'compiled': False, 'ddp': None, 'fsdp': None}\n"


def test_ligers_table_is_read_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "liger_kernel" / "transformers"
    folder.mkdir(parents=True)
    (tmp_path / "liger_kernel" / "__init__.py").write_text("raise ImportError('needs a GPU')")
    table = 'MODEL_TYPE_TO_APPLY_LIGER_FN = {\n    "llama": a,\n    "qwen2": b,\n}\nOTHER = {\n    "opt": c,\n}\n'
    (folder / "monkey_patch.py").write_text(table)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert machine.liger_model_types() == ["llama", "qwen2"]


def test_the_device_has_its_memory_clock_and_bus_width(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(
        name="NVIDIA H100",
        total_memory=68_100_000_000,
        major=9,
        minor=0,
        multi_processor_count=132,
        memory_clock_rate=1_593_000,
        memory_bus_width=4096,
    )
    for name, answer in (("is_initialized", True), ("current_device", 0), ("get_device_properties", properties)):
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)

    known = machine.device()

    assert known is not None
    assert (known["memory_clock_mhz"], known["memory_bus_bits"]) == (1593.0, 4096)
    device_schema = json.loads(SCHEMA.read_text())["properties"]["device"]
    jsonschema.validate(known, device_schema)
