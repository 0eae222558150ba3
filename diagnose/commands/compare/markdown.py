"""A comparison as GitHub-flavoured Markdown, for a pull request or a language model: short whatever the runs."""

from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.views import ComparedRows, ComparisonView, comparison_view
from diagnose.report.markdown.draft import blocks
from diagnose.report.markdown.github import MOST_TOKENS, Inline, Writer, bold, shortened
from diagnose.report.views.summary import About

_NAMED = ("Kernels", "Operators")
_FOLDED = (*_NAMED, "Ranks", "Configuration")
_LONGEST = Writer(rows=32, prose=400, name=100)


def comparison_markdown(comparison: Comparison, about: About, most: int = MOST_TOKENS) -> str:
    """The headline, the runs and the causes; kernels, ranks and configuration are folded. At most `most` tokens."""
    view = comparison_view(comparison)
    return shortened(most, lambda to: _document(view, about, to), _LONGEST)


def _document(view: ComparisonView, about: About, to: Writer) -> str:
    made = " ".join(part for part in (f"diagnose {about.version}", about.command) if part)
    parts = [
        f"### {to.text(view.headline)}",
        to.text(view.because),
        bold(to.text(view.promise)),
        to.items([Inline(f"{name}: {to.code(source)}") for name, source in view.sources]),
        *(_table(table, to) for table in view.tables),
        to.items(view.notes),
        Inline(f"<sub>{to.text(made)}</sub>"),
    ]
    return blocks(parts) + "\n"


def _table(table: ComparedRows, to: Writer) -> str:
    rows = [[to.code(row[0]) if table.title in _NAMED else row[0], *row[1:]] for row in table.rows]
    body = blocks([to.table(table.heads, rows), to.text(table.says)])
    if table.title not in _FOLDED:
        return f"#### {table.title}\n\n{body}"
    return f"<details><summary>{table.title}</summary>\n\n{body}\n\n</details>"
