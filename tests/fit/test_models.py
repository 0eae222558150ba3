"""Where the model of a planned job comes from."""

import json
from pathlib import Path

import pytest

from diagnose.commands.fit.models import model_from
from diagnose.errors import UserError
from diagnose.formulas.named_models import NAMED_MODELS

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256,
    "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["Llama-3.2-1B", "llama-3.2-1b", "meta-llama/Llama-3.2-1B", "someone/Llama-3.2-1B", "1b"]
)
def test_a_model_has_a_name_a_repository_and_a_short_form(name: str) -> None:
    assert model_from(name) == ("Llama-3.2-1B", NAMED_MODELS["Llama-3.2-1B"])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Llama-3.1-8B", 8_030_261_248),
        ("Llama-2-7b", 6_738_415_616),
        ("Qwen2.5-7B", 7_615_616_512),
        ("Mistral-7B-v0.1", 7_241_732_096),
        ("Mixtral-8x7B-v0.1", 46_702_792_704),
        ("Qwen3-30B-A3B", 30_532_122_624),
        ("OLMoE-1B-7B-0924", 6_919_161_856),
        ("gpt-oss-20b", 20_914_757_184),
        ("DeepSeek-V3", 671_026_404_352),
        ("gemma-2-9b", 9_241_705_984),
        ("gpt2-xl", 1_557_611_200),
        ("MPT-7b", 6_658_859_008),
    ],
)
def test_the_table_has_as_many_parameters_as_their_cards_say(name: str, parameters: int) -> None:
    assert NAMED_MODELS[name].parameters == parameters


def test_a_configuration_file_or_its_folder_describes_the_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert model_from(str(tmp_path))[1] == model_from(str(tmp_path / "config.json"))[1] == NAMED_MODELS["Llama-3.2-1B"]


def test_an_unknown_name_is_refused_with_near_ones() -> None:
    with pytest.raises(UserError) as error:
        model_from("qwen2.5-8b")
    assert "Qwen2.5-7B" in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps(LLAMA | {"model_type": "mamba"}), "known are llama, mistral"),
        (json.dumps({"model_type": "llama"}), "an entry that decides a size"),
        (json.dumps(LLAMA | {"num_hidden_layers": 1 << 31}), "an entry that decides a size"),
        (json.dumps([1]), "it holds no JSON object"),
        ("{", "pass the config.json of a model"),
    ],
)
def test_a_file_that_describes_no_known_model_is_refused(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError) as error:
        model_from(str(tmp_path))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "a model of type t5 has an encoder and a decoder"),
        ({"_class_name": "UNet2DConditionModel"}, "a UNet2DConditionModel of diffusers"),
        (LLAMA | {"attention_bias": True}, "attention_bias asks for an unusual variant"),
        (LLAMA | {"architectures": ["LlamaRewardModel"]}, "LlamaRewardModel is no language model of transformers"),
        (
            {"model_type": "llava", "vision_config": {"a": 1}, "text_config": LLAMA},
            "for the language model alone, pass text_config as a file",
        ),
    ],
)
def test_the_reason_names_what_is_not_counted(tmp_path: Path, config: dict[str, object], says: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError) as error:
        model_from(str(tmp_path))
    assert says in str(error.value)
