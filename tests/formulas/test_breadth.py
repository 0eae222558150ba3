"""Every known type of model against what transformers builds and torch counts; every other one is named as unknown."""

import json
from typing import Any

import pytest

from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_families import MODEL_TYPES
from diagnose.formulas.model_flops import causal_pairs_per_token
from diagnose.formulas.supported_kernels import has_sdpa
from diagnose.formulas.unknown_models import why_unknown

pytestmark = pytest.mark.capture

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
breadth = pytest.importorskip("fitting.breadth")

SURVEYED = {model_type: (kind, entries) for kind, model_type, entries in breadth.architectures()}
OF_TRANSFORMERS = [name for name, (_, entries) in SURVEYED.items() if "_class_name" not in entries]
LONG = 16384  # tokens, beyond the windows of all types


def config_of(model_type: str) -> dict[str, Any]:
    """The entries of a `config.json` with the surveyed sizes."""
    found: dict[str, Any] = json.loads(
        transformers.AutoConfig.for_model(model_type, **SURVEYED[model_type][1]).to_json_string()
    )
    return found


def test_every_known_type_is_surveyed() -> None:
    assert set(MODEL_TYPES) <= set(SURVEYED)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_known_type_counts_what_transformers_builds_and_torch_counts(model_type: str) -> None:
    kind, entries = SURVEYED[model_type]

    row = breadth.row_of(kind, model_type, {**entries, "num_hidden_layers": 6})

    assert set(row.counts) == {"parameters", "FLOPs", "pairs"}
    assert row.counts["parameters"].error == pytest.approx(0, abs=1e-6)
    assert row.counts["FLOPs"].error == 0
    assert row.counts["pairs"].error == pytest.approx(0, abs=0.003)


@pytest.mark.parametrize("model_type", sorted(set(OF_TRANSFORMERS) - set(MODEL_TYPES)))
def test_another_type_has_no_shape_and_a_reason_that_names_it(model_type: str) -> None:
    config = config_of(model_type)

    assert ModelShape.from_config(model_type, config) is None
    assert f" a model of type {model_type}" in f" {why_unknown(model_type, config)}"


@pytest.mark.parametrize(
    ("model_type", "part"),
    [
        ("qwen2_5_vl", "towers for images or sound"), ("t5", "an encoder and a decoder"), ("vit", "image patches"),
        ("qwen3_next", "linear-attention layers"), ("jamba", "state-space or recurrent layers"),
        ("wav2vec2", "convolutions over sound"), ("deepseek_v32", "attention to chosen tokens"),
        ("electra", "an embedding of a width of its own"), ("falcon", "no formula counts the parts"),
    ],
)  # fmt: skip
def test_the_reason_names_what_is_not_counted(model_type: str, part: str) -> None:
    assert part in why_unknown(model_type, config_of(model_type))


def test_a_configuration_of_diffusers_is_named() -> None:
    assert "a FluxTransformer2DModel of diffusers" in why_unknown("", {"_class_name": "FluxTransformer2DModel"})


def other_counts(model_type: str, entry: str) -> bool:
    """Whether the counts are others if the configuration leaves an entry out, which then has the class's default."""
    config = config_of(model_type)
    full = ModelShape.from_config(model_type, config)
    less = ModelShape.from_config(model_type, {name: value for name, value in config.items() if name != entry})
    assert full is not None
    if less is None:
        return False
    pairs = [causal_pairs_per_token(shape, LONG) for shape in (less, full)]
    return less.parameters != full.parameters or pairs[0] != pairs[1]


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_an_entry_that_is_left_out_is_as_in_the_class_or_leaves_no_shape(model_type: str) -> None:
    assert [entry for entry in config_of(model_type) if other_counts(model_type, entry)] == []


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_fused_attention_is_there_where_transformers_has_it(model_type: str) -> None:
    config = transformers.AutoConfig.for_model(model_type, **SURVEYED[model_type][1])

    assert breadth.class_of(config)._supports_sdpa == has_sdpa(model_type)


def test_more_dense_blocks_than_there_are_is_all_of_them() -> None:
    config = transformers.AutoConfig.for_model("deepseek_v3", num_hidden_layers=2)
    shape = ModelShape.from_config("deepseek_v3", config.to_dict())

    assert shape is not None
    assert shape.parameters == breadth.built("deepseek_v3", {"num_hidden_layers": 2}).num_parameters()


@pytest.mark.parametrize("flag", ["attention_bias", "use_qk_norm"])
def test_glm_reads_its_biases_and_norms(flag: str) -> None:
    entries = {"num_hidden_layers": 3, flag: True}
    model = breadth.built("glm4_moe", entries)
    shape = ModelShape.from_config("glm4_moe", model.config.to_dict())

    assert shape is not None
    assert shape.parameters == model.num_parameters()
