"""Change what judges, a threshold or a condition at a time, and list the changes that no test notices.

python -m benchmarks.mutation                                # the rules, a minute
python -m benchmarks.mutation --renew                        # tests/rule_boundaries.toml and whatif_factors.toml anew
python -m benchmarks.mutation --thresholds diagnose.ranks    # those in Python below a package, too: minutes
python -m benchmarks.mutation --write benchmarks/reports     # all of them, and the dated report

Ends with 1 where more than a twentieth of the changes go unnoticed.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from . import tables, whatifs
from .judging import judged, renewed
from .outcome import TABLE, stated
from .page import MOST_SURVIVING, Tally, page, tallied
from .thresholds import judged_thresholds


def main() -> None:
    """Prints the tally and what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--renew", action="store_true", help="write the table of cases; read its diff")
    parser.add_argument(
        "--thresholds",
        nargs="?",
        const="diagnose",
        metavar="PACKAGE",
        help="those in Python, too, or those below a package: many minutes",
    )
    parser.add_argument("--write", type=Path, help="folder for the dated report; with the thresholds")
    given = parser.parse_args()
    if given.renew:
        TABLE.write_text(tables.written(renewed(stated())), encoding="utf-8")
        whatifs.TABLE.write_text(tables.written(whatifs.renewed(whatifs.stated())), encoding="utf-8")
    tallies = [tallied("rules", judged(stated())), tallied("factors of [whatif]", whatifs.judged(whatifs.stated()))]
    if given.thresholds or given.write:
        tallies.append(tallied("thresholds in Python", judged_thresholds(given.thresholds or "diagnose")))
    today = datetime.date.today().isoformat()
    text = page(tallies, today)
    sys.stdout.write(text)
    if given.write:
        (given.write / f"mutation-{today}.md").write_text(text, encoding="utf-8")
    sys.exit(any(_survive(tally) for tally in tallies))


def _survive(tally: Tally) -> bool:
    return len(tally.surviving) > MOST_SURVIVING * tally.count


if __name__ == "__main__":
    main()
