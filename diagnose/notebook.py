"""`diagnose.analyze`: the diagnosis as a notebook shows it, and its tables as data frames."""

import io
from functools import cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from rich.console import Console

from diagnose import analysis
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, to_install
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.tables import CapacityTable, tables_of
from diagnose.report.text import render
from diagnose.version import __version__

if TYPE_CHECKING:
    from pandas import DataFrame

WIDTH = 100  # cells of the report as text
HEIGHT = "min(80vh, 60rem)"
_DTYPES = {str: "string", int: "Int64", float: "float64", bool: "boolean"}


class Analysis:
    """A diagnosis that displays as the whole page in a notebook, and as the terminal's report elsewhere.

    Attributes:
        diagnosis: the Diagnosis; its attributes can also be read from the analysis, unless a table has their name.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis

    @property
    def facts(self) -> "DataFrame":
        """Every measurement by name; an unknown one has a missing value and the reason in another column."""
        return self.table("facts").set_index("fact")

    @property
    def ledger(self) -> "DataFrame":
        """Each cause with its nanoseconds over the counted steps and its share of them."""
        return self.table("ledger")

    @property
    def findings(self) -> "DataFrame":
        """The rules that fired, with what to do and the range of the speedup."""
        return self.table("findings")

    @property
    def kernels(self) -> "DataFrame":
        """The longest kernels of a typical rank, per step."""
        return self.table("kernels")

    @property
    def ranks(self) -> "DataFrame":
        """A row for each rank and cause, with the share of that rank's own step."""
        return self.table("ranks")

    @property
    def plan(self) -> "DataFrame":
        """The changes in order, each with its speedup and that of the plan so far."""
        return self.table("plan")

    def table(self, name: str) -> "DataFrame":
        """A table by the name that its file has in `--tables`.

        Raises:
            UserError: there is no such table, or pandas is not installed.
        """
        if name not in self._tables:
            raise UserError(f"no table {name!r}", do=f"choose one of {', '.join(self._tables)}")
        return _frame(self._tables[name])

    @cached_property
    def _tables(self) -> dict[str, CapacityTable]:
        return tables_of(self.diagnosis)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "diagnosis":
            raise AttributeError(name)
        return getattr(self.diagnosis, name)

    def __repr__(self) -> str:
        to = io.StringIO()
        plain = Console(
            file=to,
            width=WIDTH,
            color_system=None,
            force_jupyter=False,
            force_terminal=False,
            markup=False,
            emoji=False,
            highlight=False,
        )
        render(self.diagnosis, plain)
        return to.getvalue().rstrip("\n")

    def _repr_markdown_(self) -> str:
        return markdown(self.diagnosis, About(__version__))

    def _repr_html_(self) -> str:
        """The page in a frame of its own: it reaches nothing of the notebook, nor the notebook's styles the page."""
        content = escape(page(self.diagnosis, About(__version__)))
        style = f"width: 100%; height: {HEIGHT}; border: 0"
        return f'<iframe title="diagnose" sandbox="allow-scripts" style="{style}" srcdoc="{content}"></iframe>'


def analyze(path: str | Path, *, options: analysis.Options | None = None, **stated: Any) -> Analysis:
    """Diagnose the traces at `path`, a file, a folder with one file for each rank, or the URL of one.

    Args:
        path: the trace or folder.
        options: what is known about the run in addition to its traces.
        stated: single fields of `diagnose.analysis.Options` by name, such as `flops_per_step=4.2e15` or `rank=3`.

    Raises:
        UserError: the input or a rule cannot be used.
        TypeError: no option has that name.
    """
    chosen = replace(options or analysis.Options(), **stated)
    return Analysis(analysis.analyze(path, options=chosen))


def _frame(table: CapacityTable) -> "DataFrame":
    if find_spec("pandas") is None:
        raise UserError("no data frames without pandas", why="it is not installed", do=to_install("tables"))
    from pandas import DataFrame

    frame = DataFrame(list(table.rows), columns=list(table.columns), dtype=object)
    return frame.astype({column: _DTYPES[kind] for column, kind in table.columns.items()})
