"""The report as one HTML file that needs no network and reads without JavaScript."""

from diagnose.report.html.page import About, page

__all__ = ["About", "page"]
