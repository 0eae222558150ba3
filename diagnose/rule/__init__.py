"""Rules: judgements over facts, one TOML file each, that explain themselves and carry their own tests."""

from diagnose.rule.loading import builtin_rules, load_rule, load_rules
from diagnose.rule.rule import PLACEHOLDER, SEVERITIES, Judgement, Rule

__all__ = ["PLACEHOLDER", "SEVERITIES", "Judgement", "Rule", "builtin_rules", "load_rule", "load_rules"]
