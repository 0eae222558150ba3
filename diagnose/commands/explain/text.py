"""An explanation as text: labelled paragraphs, in the order in which they are read."""

from rich.text import Text

from diagnose.commands.explain.explanation import Explanation
from diagnose.report.text.page import Page


def render(told: Explanation, page: Page, run: str = "") -> None:
    """Print the explanation; `run` is where its numbers come from, "" without a run."""
    page.line(Text.assemble((told.name, "bold"), (f"   {told.kind}", "dim")))
    page.hanging(told.title, 0)
    page.gap()
    _paragraphs(page, "mechanism:", told.mechanism)
    _paragraphs(page, "formula:", told.formula)
    _paragraphs(page, "yours:" if run else "numbers:", *told.yours)
    _paragraphs(page, "see it:", told.see_it)
    _paragraphs(page, "do:", *told.do)
    _paragraphs(page, "wrong if:", told.wrong_if)
    _paragraphs(page, "thresholds:", *told.thresholds)
    _paragraphs(page, "source:", told.source)
    _paragraphs(page, "related:", ", ".join(told.related))
    if run:
        page.paragraph(run, label="run:")


def _paragraphs(page: Page, label: str, *texts: str) -> None:
    for i, text in enumerate(filter(None, texts)):
        page.paragraph(text, label="" if i else label)
