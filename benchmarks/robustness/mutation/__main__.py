"""Change what judges, a threshold or a condition at a time, and list the changes that no test notices.

    python -m benchmarks.robustness.mutation                              # the rules, a minute
    python -m benchmarks.robustness.mutation --renew                      # the tables of tests/ anew
    python -m benchmarks.robustness.mutation --thresholds diagnose.ranks  # those in Python below it, too: minutes
    python -m benchmarks.robustness.mutation --write                      # all of them, and the dated report

Ends with 1 where more than a twentieth of the changes go unnoticed.
"""

import sys

from reporting import parser, publish, today

from . import tables, whatifs
from .judging import judged, renewed
from .outcome import TABLE, stated
from .page import MOST_SURVIVING, Tally, page, tallied
from .thresholds import judged_thresholds


def main() -> None:
    """Prints the tally and what survives."""
    options = parser(__doc__)
    options.add_argument("--renew", action="store_true", help="write the table of cases; read its diff")
    options.add_argument(
        "--thresholds", nargs="?", const="diagnose", metavar="PACKAGE",
        help="those in Python, too, or those below a package: many minutes",
    )  # fmt: skip
    given = options.parse_args()
    if given.renew:
        TABLE.write_text(tables.written(renewed(stated())), encoding="utf-8")
        whatifs.TABLE.write_text(tables.written(whatifs.renewed(whatifs.stated())), encoding="utf-8")
    tallies = [tallied("rules", judged(stated())), tallied("factors of [whatif]", whatifs.judged(whatifs.stated()))]
    if given.thresholds or given.write:
        tallies.append(tallied("thresholds in Python", judged_thresholds(given.thresholds or "diagnose")))
    publish(page(tallies, today()), given.write, "mutation")
    sys.exit(any(_survive(tally) for tally in tallies))


def _survive(tally: Tally) -> bool:
    return len(tally.surviving) > MOST_SURVIVING * tally.count


if __name__ == "__main__":
    main()
