"""The report as GitHub-flavoured Markdown."""

from diagnose.report.markdown.document import MOST_TOKENS, markdown

__all__ = ["MOST_TOKENS", "markdown"]
