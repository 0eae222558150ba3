"""Uses of the track record by commands: quote it with a diagnosis, and append what a run has measured."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose.cli.command import Option
from diagnose.cli.voice import say
from diagnose.errors import printable

if TYPE_CHECKING:
    from diagnose.commands.ledger.prediction import Source
    from diagnose.diagnosis import Diagnosis, Estimate

Command = TypeVar("Command", bound=Callable[..., Any])


def ledger_option(says: str, **conditions: Any) -> Callable[[Command], Command]:
    """Adds --no-ledger, given as `no_ledger`, with the conditions of its effect."""
    return click.option("--no-ledger", cls=Option, is_flag=True, help=says, **conditions)


def with_track_records(diagnosis: "Diagnosis", no_ledger: bool) -> "Diagnosis":
    """The diagnosis with the track records of its rules from the user's track record, unless they are not wanted."""
    from diagnose.commands.ledger.keeping import recorded_predictions
    from diagnose.commands.ledger.tally import quoting

    return diagnosis if no_ledger else quoting(diagnosis, recorded_predictions().predictions)


def record(diagnosis: "Diagnosis", source: "Source" = "apply", achieved: "Estimate | None" = None) -> None:
    """Append the prediction that a run with a patch put to the test, and report it in a line; do nothing if there is
    none.

    `achieved` is a better measurement than that of the run alone.
    """
    from diagnose.commands.ledger import keeping
    from diagnose.commands.ledger.prediction import prediction_of_patch

    done = keeping.record(prediction_of_patch(diagnosis, source, achieved))
    if done.failed:
        say(f"not kept in the ledger of promises: {printable(done.because)}")
    elif done.done:
        say("kept in the ledger of promises (diagnose ledger shows it; --no-ledger keeps none)")
