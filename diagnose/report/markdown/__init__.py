"""The report as GitHub-flavoured Markdown."""

from diagnose.report.markdown.document import markdown
from diagnose.report.markdown.github import MOST_TOKENS

__all__ = ["MOST_TOKENS", "markdown"]
