"""The report as text for a terminal or a pipe."""

from diagnose.report.text.report import render, render_brief, render_first_screen

__all__ = ["render", "render_brief", "render_first_screen"]
