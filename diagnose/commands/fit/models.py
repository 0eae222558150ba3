"""Sources of a job's model: a configuration file of transformers, or a name of the table."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from diagnose.commands.fit.stacks import StackRates
from diagnose.errors import UserError, WrongUsage
from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_families import MODEL_TYPES
from diagnose.formulas.named_models import NAMED_MODELS, named_model
from diagnose.formulas.unknown_models import why_unknown

_TOKENS = 2048
_PLAIN = "state every size as transformers names it; variants with other parts are not counted"
_TEXT_ALONE = "for the language model alone, pass text_config as a file, with the tie_word_embeddings of the whole; "
_MOST_BYTES = 1 << 20  # a configuration is a few kilobytes


def model_from(text: str) -> tuple[str, ModelShape]:
    """A name for reports and the shape of the model.

    Args:
        text: the path of a `config.json` or of the folder that holds it, or a name such as `Llama-3.2-1B`,
            `meta-llama/Llama-3.2-1B` or `8b`.

    Raises:
        UserError: there is no such file and no such name, or the file describes no model that is known.
    """
    path = Path(os.path.expanduser(text))
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return _from_file(path)
    return model_named(text)


def model_named(text: str) -> tuple[str, ModelShape]:
    """The table's name of a model and its shape; no file is looked for.

    Raises:
        UserError: there is no such name.
    """
    if (known := named_model(text)) is not None:
        return known
    near = get_close_matches(text.rsplit("/", 1)[-1], NAMED_MODELS, n=5, cutoff=0.4) or list(NAMED_MODELS)[:8]
    do = f"pass its config.json, or a name of the table, such as {', '.join(near)}"
    raise WrongUsage("no file and no known model of that name", where=text, do=do)


def longest_usual(model: ModelShape) -> int:
    """Default length of a sequence in tokens: 2048, or halves of it if the model has positions for no more."""
    usual = _TOKENS
    while model.positions and usual > max(model.positions, 1):
        usual //= 2
    return usual


def with_places(model: ModelShape, seq_len: int, stack: StackRates) -> ModelShape:
    """The model with a learned position for each token of a sequence; unchanged if it has no such positions.

    Raises:
        UserError: it has fewer, and transformers takes the number of its configuration. Other stacks build the model
            for the sequences.
    """
    if not model.positions or seq_len <= model.positions:
        return model
    if stack.name == "transformers":
        why = f"the model has learned places for {model.positions} tokens"
        do = f"use --seq-len {longest_usual(model)}, or a config.json with more of them"
        raise WrongUsage("the sequences are longer than the model takes", where=f"{seq_len} tokens", why=why, do=do)
    return replace(model, positions=seq_len)


def _from_file(path: Path) -> tuple[str, ModelShape]:
    config = _read(path)
    kind, built = config.get("model_type"), config.get("architectures")
    kind = kind if isinstance(kind, str) else ""
    first = built[0] if isinstance(built, list) and built and isinstance(built[0], str) else None
    shape = ModelShape.from_config(kind, config, first)
    if shape is None:
        raise _not_counted(path, kind, config, first)
    name = config.get("_name_or_path")
    return (name if isinstance(name, str) and name else path.parent.name or path.name), shape


def _not_counted(path: Path, kind: str, config: Mapping[str, Any], class_name: str | None) -> UserError:
    why = why_unknown(kind, config, class_name)
    if kind in MODEL_TYPES:
        return UserError("the configuration does not describe the model for certain", where=path, why=why, do=_PLAIN)
    text = config.get("text_config")
    within = text.get("model_type") if isinstance(text, Mapping) else None
    alone = _TEXT_ALONE if within in MODEL_TYPES else ""
    do = f"{alone}known are {', '.join(MODEL_TYPES)}"
    return UserError("not a known kind of model", where=path, why=why, do=do)


def _read(path: Path) -> dict[str, Any]:
    do = "pass the config.json of a model of transformers"
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError("too large for a model's configuration", where=path, do=do)
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError("cannot be read as a model's configuration", where=path, why=str(error), do=do) from error
    if not isinstance(config, dict):
        raise UserError("not a model's configuration", where=path, why="it holds no JSON object", do=do)
    return config
