"""Options that the user may state about a job."""

from pathlib import Path

import msgspec

from diagnose.decoding import LEAST_STATED, MOST_STATED
from diagnose.errors import UserError
from diagnose.metrics.settings import Settings
from diagnose.trace import Loading


class Options(Settings, frozen=True, kw_only=True):
    """Options that the user may state for a path: the settings of the run, and which rules and traces to use.

    Attributes:
        rules_dirs: folders with the user's own rules.
        run: which run, when a folder holds several.
        loading: how the traces are loaded.
        scheduler: address or file of the Dask scheduler whose workers read the traces; None for this machine.
        rank: the one rank to diagnose, with all others read for what it waits for; None for the whole job.
    """

    rules_dirs: tuple[Path, ...] = ()
    run: str | None = None
    loading: Loading = msgspec.field(default_factory=Loading)
    scheduler: str | None = None
    rank: int | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the run alone, as other processes take them.

        Raises:
            UserError: a number is too large or too small to compute with.
        """
        stated = {name: getattr(self, name) for name in Settings.__struct_fields__}
        for name, value in stated.items():
            if isinstance(value, float) and not LEAST_STATED <= value <= MOST_STATED:
                why = f"it is not between {LEAST_STATED:g} and {MOST_STATED:g}"
                raise UserError(f"{name} cannot be {value}", why=why, do="state another")
        return Settings(**stated)
