"""Changes of a patch that transformers' models and accelerate rule out, by reading them."""

from __future__ import annotations

from .reasons import Reason, Refusal

_SUPPORTED = {"sdpa": "_supports_sdpa"}  # the attribute by which a class of models states its support


def attention_refused(kind: type, implementation: object) -> Refusal | None:
    """Why a model of this class cannot be made with the attention; None if the class does not rule it out."""
    says = getattr(kind, _SUPPORTED.get(str(implementation), ""), None)
    return Refusal(Reason.NO_ATTENTION, kind.__name__) if says is False else None


def plugin_refused(plugin: object) -> Refusal | None:
    """Why an Accelerator takes no backend of the compiler; None if it does."""
    return None if plugin is None else Refusal(Reason.DYNAMO_PLUGIN)
