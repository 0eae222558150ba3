"""What commands do with the ledger of promises: quote it beside a diagnosis, and append what a run put to the test."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose.cli.command import Option
from diagnose.cli.voice import say
from diagnose.errors import printable

if TYPE_CHECKING:
    from diagnose.commands.ledger.promise import Achieved, Source
    from diagnose.diagnosis import Diagnosis

Command = TypeVar("Command", bound=Callable[..., Any])


def ledger_option(says: str, **conditions: Any) -> Callable[[Command], Command]:
    """Adds --no-ledger, given as `no_ledger`, with the conditions of its effect."""
    return click.option("--no-ledger", cls=Option, is_flag=True, help=says, **conditions)


def with_track_records(diagnosis: "Diagnosis", no_ledger: bool) -> "Diagnosis":
    """The diagnosis with what the user's ledger says of its rules, unless that is not wanted."""
    from diagnose.commands.ledger.keeping import kept
    from diagnose.commands.ledger.tally import quoting

    return diagnosis if no_ledger else quoting(diagnosis, kept().promises)


def record(diagnosis: "Diagnosis", source: "Source" = "apply", achieved: "Achieved | None" = None) -> None:
    """Appends what a run with a patch put to the test, and says so in a line; nothing if there was nothing.

    `achieved` is a better measurement than that of the run alone.
    """
    from diagnose.commands.ledger import keeping
    from diagnose.commands.ledger.promise import promise_of_patch

    done = keeping.record(promise_of_patch(diagnosis, source, achieved))
    if done.failed:
        say(f"not kept in the ledger of promises: {printable(done.because)}")
    elif done.done:
        say("kept in the ledger of promises (diagnose ledger shows it; --no-ledger keeps none)")
