"""Recognise exports of Nsight Systems, and count the ranks in each."""

from pathlib import Path

from diagnose.errors import UserError
from diagnose.trace.nsight.database import Database
from diagnose.trace.nsight.processes import RANGES, processes_of


def is_export(database: Database) -> bool:
    """Whether the database has tables of CUDA's activities or of NVTX ranges, as those of other tools have not."""
    return any(table == RANGES or table.startswith("CUPTI_ACTIVITY_KIND_") for table in database.tables)


def is_of_nsight(database: Database) -> bool:
    """Whether the database is an export of Nsight Systems, of whatever activity."""
    return "StringIds" in database.tables and any(table.startswith("TARGET_INFO_") for table in database.tables)


def is_of_nvprof(database: Database) -> bool:
    """Whether nvprof wrote the database: it has CUPTI's tables and a table of texts of its own."""
    return "StringTable" in database.tables and any(t.startswith("CUPTI_ACTIVITY_KIND_") for t in database.tables)


def ranks_in(path: Path) -> int:
    """Number of ranks in the database, 0 if it is no export; 1 if it is damaged, which its reader then reports."""
    try:
        with Database(path) as database:
            return max(len(processes_of(database).keys), 1) if is_export(database) else 0
    except (UserError, OSError):
        return 1
