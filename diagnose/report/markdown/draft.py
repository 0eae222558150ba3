"""What a section of the document is written from."""

from collections.abc import Sequence
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis
from diagnose.report.markdown.github import Writer
from diagnose.report.views.summary import About


@dataclass(frozen=True)
class Draft:
    """The document at one length: what it tells, what wrote it, and how much of it fits."""

    diagnosis: Diagnosis
    about: About
    to: Writer


def blocks(each: Sequence[str]) -> str:
    """Those that are not empty, with an empty line between them."""
    return "\n\n".join(block for block in each if block)
