"""The report as text for a terminal or a pipe."""

from diagnose.report.text.report import render, render_brief

__all__ = ["render", "render_brief"]
