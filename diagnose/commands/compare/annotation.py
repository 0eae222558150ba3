"""A comparison as an annotation of a GitHub workflow."""

from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.views import headline
from diagnose.report.annotations import command_line

_LEVELS = {"better": "notice", "no_difference": "notice", "worse": "warning", "not_comparable": "warning"}


def compared_annotation(comparison: Comparison, regression: str) -> str:
    """The headline of a comparison; an error if `regression` gives the reason why it is one."""
    level = "error" if regression else _LEVELS[comparison.verdict]
    text = ". ".join(filter(None, (headline(comparison), regression and f"Regression: {regression}")))
    return command_line(level, "diagnose", text)
