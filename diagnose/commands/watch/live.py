"""A view that stays in its place on the terminal and changes there."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from diagnose.cli.terminal import terminal
from diagnose.commands.watch.following import Following
from diagnose.commands.watch.keys import keys
from diagnose.commands.watch.text import render
from diagnose.commands.watch.view import View

QUIT = "q"
_HEARD_WITHIN_S = 0.1


def show_live(following: Following) -> None:
    """Show the views until the job has ended, or `q` is typed."""
    console = terminal()
    with keys() as typed, Live(console=console, auto_refresh=False, redirect_stdout=False) as live:
        live.update(Text("reading the step logs", "dim"), refresh=True)  # of many ranks and steps that takes a while
        view: View | None = None
        while view is None or not view.is_over:
            if QUIT in typed.typed(_HEARD_WITHIN_S):
                return
            found = following.next(within_s=0.001)
            if found is not None:
                view = found
                live.update(_drawn(view, console), refresh=True)


def _drawn(view: View, console: Console) -> Text:
    """The view in the width that the terminal has now."""
    page = terminal()
    console.width = page.width
    with page.capture() as drawn:
        render(view, page)
        if not view.is_over:
            page.print(Text(f"\n{QUIT} ends the view, not the job", "dim"))
    return Text.from_ansi(drawn.get().rstrip("\n"))
