"""Rules: judgements over facts, one TOML file each, that explain themselves and carry their own tests."""

from diagnose.rule.loading import builtin_rules, load_rule, load_rules
from diagnose.rule.rule import SEVERITIES, Judgement, Rule, filled, names_in

__all__ = ["SEVERITIES", "Judgement", "Rule", "builtin_rules", "filled", "load_rule", "load_rules", "names_in"]
