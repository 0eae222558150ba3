"""The user's functions with their share of Python time, in Markdown, or why they are unknown."""

from diagnose.report.markdown.draft import Draft, blocks
from diagnose.report.views.user_code import user_code_view


def user_code(draft: Draft) -> str:
    """A table of the functions with most time."""
    view, to = user_code_view(draft.diagnosis), draft.to
    if view is None:
        return ""
    if view.unknown:
        return to.text(f"The lines are unknown: {view.unknown}")
    cost = f"; {view.cost}" if view.cost else ""
    listed = [(to.code(each.place), each.share, each.total, each.row.doing) for each in view.functions]
    table = to.table(("function (hottest line)", "own", "with calls", "doing"), listed)
    return blocks([to.text(f"In % of {view.of}{cost}."), table])
