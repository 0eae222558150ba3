"""Where Python is, in Markdown: the user's functions with their shares, or why they are unknown."""

from collections.abc import Sequence

from diagnose.report.markdown.draft import Draft, blocks
from diagnose.report.views.user_code import FunctionView, user_code_view


def user_code(draft: Draft) -> str:
    """A table of the functions with most time of the training thread, and of loader workers."""
    view, to = user_code_view(draft.diagnosis), draft.to
    if view is None:
        return ""
    if view.unknown:
        return blocks([to.text(f"The lines are unknown: {view.unknown}")])
    cost = f"; {view.cost}" if view.cost else ""
    about = to.text(f"In % of {view.of}{cost}.")
    workers = [to.text(f"In % of {view.loading_of}."), _table(draft, view.loading)] if view.loading else []
    return blocks([about, _table(draft, view.functions), *workers])


def _table(draft: Draft, functions: Sequence[FunctionView]) -> str:
    to = draft.to
    listed = [(to.code(each.place), each.share, each.total, each.row.doing) for each in functions]
    return to.table(("function (hottest line)", "own", "with calls", "doing"), listed)
