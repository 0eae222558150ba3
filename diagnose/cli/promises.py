"""What commands do with the ledger of promises: quote it beside a diagnosis, and append what a run put to the test."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose.cli.voice import say
from diagnose.errors import printable

if TYPE_CHECKING:
    from diagnose.diagnosis import Diagnosis
    from diagnose.patch.promises.promise import Achieved, Source

Command = TypeVar("Command", bound=Callable[..., Any])


def ledger_option(says: str) -> Callable[[Command], Command]:
    """Adds --no-ledger, given as `no_ledger`."""
    return click.option("--no-ledger", is_flag=True, help=says)


def with_track_records(diagnosis: "Diagnosis", no_ledger: bool) -> "Diagnosis":
    """The diagnosis with what the user's ledger says of its rules, unless that is not wanted."""
    from diagnose.patch.promises.keeping import kept
    from diagnose.patch.promises.tally import quoting

    return diagnosis if no_ledger else quoting(diagnosis, kept().promises)


def record(diagnosis: "Diagnosis", source: "Source" = "apply", achieved: "Achieved | None" = None) -> None:
    """Appends what a run with a patch put to the test, and says so in a line; nothing where there was nothing.

    `achieved` is a better measurement than that of the run alone.
    """
    from diagnose.patch.promises import keeping
    from diagnose.patch.promises.promise import promise_of_patch

    done = keeping.record(promise_of_patch(diagnosis, source, achieved))
    if done.failed:
        say(f"not kept in the ledger of promises: {printable(done.because)}")
    elif done.done:
        say("kept in the ledger of promises (diagnose ledger shows it; --no-ledger keeps none)")
