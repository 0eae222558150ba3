"""Score the diagnosis on jobs whose answer is known.

python -m benchmarks.accuracy                                # the whole corpus, five minutes on two idle cores
python -m benchmarks.accuracy --subset ci                    # one minute; ends with 1 below the floors
python -m benchmarks.accuracy --write benchmarks/reports     # with the dated report, and the page docs/accuracy.md
"""

import argparse
import datetime
import sys
from pathlib import Path

from .columns import side_by_side
from .corpus import SEVERITIES
from .floors import below_floors
from .kept_reports import kinds_left_out, real_jobs
from .page import PAGE, page, report, short
from .peers import peers
from .real import real_outcomes
from .realism import realism
from .run import FULL_SEEDS, cases_of, outcomes_of
from .score import Outcome, Score


def main() -> None:
    """Runs the corpus and prints the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=main.__doc__)
    parser.add_argument("--subset", choices=("full", "ci", "quick", "healthy", "drawn", "further"), default="full")
    parser.add_argument("--seeds", type=int, nargs="+", default=FULL_SEEDS, help="of the full corpus")
    parser.add_argument("--severities", choices=SEVERITIES, nargs="+", default=SEVERITIES, help="of the full corpus")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="folder for the dated report; writes docs/accuracy.md too")
    parser.add_argument("--ledger", type=Path, nargs="+", help="files of `diagnose ledger --export`: a column more")
    stated = parser.parse_args()
    chosen = cases_of(stated.subset, stated.seeds, tuple(stated.severities))
    cases = [case for case in chosen if stated.only in case.label]
    score = Score(outcomes_of(cases, stated.jobs, _tell))
    print(short(score))
    if stated.write:
        others = [Score(outcomes_of(cases_of(each), stated.jobs, _tell)) for each in ("healthy", "drawn", "further")]
        command = f"python -m benchmarks.accuracy {' '.join(sys.argv[1:])}"
        beside = peers(score.outcomes, stated.jobs)
        real = real_outcomes()
        columns = side_by_side(score, real, *others, stated.ledger or ())
        text = page(score, real, realism(), command, beside, real_jobs(), columns, kinds_left_out())
        stated.write.mkdir(parents=True, exist_ok=True)
        today = datetime.date.today().isoformat()
        (stated.write / f"accuracy-{today}.md").write_text(report(text, today), encoding="utf-8")
        PAGE.write_text(text, encoding="utf-8")
    missed = below_floors(score) if stated.subset not in ("full", "further") and not stated.only else []
    for line in missed:
        print(line, file=sys.stderr)
    sys.exit(bool(missed))


def _tell(outcome: Outcome) -> None:
    """What is wrong of a row, at once: the whole corpus takes minutes."""
    for line in outcome.misses:
        print(f"{outcome.case.label}: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
