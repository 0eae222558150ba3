"""The report as one HTML file that needs no network and reads without JavaScript."""

from diagnose.report.html.page import page
from diagnose.report.views.summary import About

__all__ = ["About", "page"]
