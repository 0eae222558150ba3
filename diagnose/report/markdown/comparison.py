"""A comparison as GitHub-flavoured Markdown, for a pull request."""

from diagnose.diagnosis import Comparison
from diagnose.report.markdown.draft import blocks
from diagnose.report.markdown.github import Inline, Writer, bold
from diagnose.report.views.comparison import Rows, comparison_view
from diagnose.report.views.summary import About

_NAMED = ("Kernels", "Operators")
_FOLDED = (*_NAMED, "Ranks", "Configuration")
_WRITER = Writer(rows=32, prose=400, name=100)


def comparison_markdown(comparison: Comparison, about: About) -> str:
    """The headline, the runs and the causes; kernels, ranks and configuration are folded."""
    to, view = _WRITER, comparison_view(comparison)
    made = " ".join(part for part in (f"diagnose {about.version}", about.command) if part)
    parts = [
        f"### {to.text(view.headline)}",
        to.text(view.because),
        bold(to.text(view.promise)),
        to.items([Inline(f"{name}: {to.code(source)}") for name, source in view.sources]),
        *(_table(table) for table in view.tables),
        to.items(view.notes),
        Inline(f"<sub>{to.text(made)}</sub>"),
    ]
    return blocks(parts) + "\n"


def _table(table: Rows) -> str:
    rows = [
        [_WRITER.code(row[0]) if table.title in ("Kernels", "Operators") else row[0], *row[1:]] for row in table.rows
    ]
    body = blocks([_WRITER.table(table.heads, rows), _WRITER.text(table.says)])
    if table.title not in _FOLDED:
        return f"#### {table.title}\n\n{body}"
    return f"<details><summary>{table.title}</summary>\n\n{body}\n\n</details>"
