"""Rules: judgements over facts, one TOML file each, that explain themselves and carry their own tests."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from diagnose.rule.folder import builtin_rules

if TYPE_CHECKING:
    from diagnose.rule.loading import load_rule, load_rules
    from diagnose.rule.rule import SEVERITIES, Judgement, Rule, filled, names_in

__all__ = ["SEVERITIES", "Judgement", "Rule", "builtin_rules", "filled", "load_rule", "load_rules", "names_in"]


def __getattr__(name: str) -> Any:
    """Import the attributes of `rule` and `loading` on first use: a cached answer needs no rule."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "loading" if name.startswith("load_") else "rule"
    return getattr(import_module(f"{__name__}.{home}"), name)
