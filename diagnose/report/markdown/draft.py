"""The input of a section of the document."""

from collections.abc import Sequence
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis
from diagnose.report.markdown.github import Writer
from diagnose.report.views.summary import About


@dataclass(frozen=True)
class Draft:
    """The document at one length: the diagnosis, the program that writes it, and the writer that limits its length."""

    diagnosis: Diagnosis
    about: About
    to: Writer


def blocks(each: Sequence[str]) -> str:
    """Join the blocks that are not empty, with an empty line between them."""
    return "\n\n".join(block for block in each if block)
