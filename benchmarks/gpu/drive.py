"""Runs the parts of one call, each in a process group with a limit and a log of its own; packs what comes back.

After each part the summary in $OUT is written anew, so that a call that is cut off has told what it knows. A part that
ended well before, in $WORK or by a summary in the folder `done` beside the wheels, is not run again. See README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calls import BUDGETS, Part, parts_of, script
from kit import written
from returned import pack
from wheels import PACKED, commit

LIMIT_S = 590.0  # a call takes less than ten minutes
RESERVE_S = 20.0  # for packing
TINY_BUDGET_S = 10_000.0
AGAIN = ("environment",)  # what each call tells anew
WELL = ("ended", "ended before")
TAIL_BYTES = 1500


class Call:
    """One call: what is asked, where things lie, and what has ended."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.number, self.tiny, self.repo = asked.call, os.environ.get("TINY") == "1", asked.repo
        self.out, self.work = Path(os.environ["OUT"]), Path(os.environ["WORK"])
        self.results, self.logs = self.work / "results", self.work / "logs"
        for folder in (self.results, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.began = asked.began
        budget = asked.budget or (TINY_BUDGET_S if self.tiny else BUDGETS[asked.call])
        self.until = self.began + (budget if self.tiny else min(budget, LIMIT_S - RESERVE_S))
        self.known = {} if asked.again else known(asked.repo / PACKED / "done", self.work, self.tiny)
        self.rows: list[dict[str, Any]] = []

    def new(self, path: Path) -> bool:
        """Whether this call wrote the file: those of earlier calls may lie beside it."""
        return path.stat().st_mtime >= self.began - 1

    def run(self, part: Part) -> None:
        """One part; how it ended is told, whatever happened."""
        limit = min(part.limit_s * (3 if self.tiny else 1), self.until - time.time())
        since = time.time()
        if part.name in self.known and part.name not in AGAIN:
            end = "ended before"
        elif limit < (1 if self.tiny else part.least_s):
            end = "no time left"
        else:
            end = self.ended(part, limit)
        self.rows.append({"part": part.name, "end": end, "s": round(time.time() - since, 1)})
        print(f"[{time.time() - self.began:5.0f} s] {part.name}: {end}", flush=True)
        self.tell()

    def ended(self, part: Part, limit_s: float) -> str:
        """How the process of a part ended within its limit."""
        result = str(self.results / f"{part.name}.json")
        env = {**os.environ, "RESULT": result, "LIMIT_S": f"{limit_s - 5:.0f}"}
        with (self.logs / f"{part.name}.log").open("wb") as log:
            log.write(f"$ {' '.join(part.words)}\n".encode())
            log.flush()
            at = {"cwd": self.work, "env": env, "start_new_session": True}
            process = subprocess.Popen(part.words, stdout=log, stderr=log, **at)
            try:
                code = process.wait(limit_s)
                return "ended" if code == 0 else f"ended with {code}"
            except subprocess.TimeoutExpired:
                return f"stopped after {limit_s:.0f} s"
            finally:
                end_all(process)

    def tell(self) -> None:
        """The small summary: how the parts ended, what they found, and the ends of the logs of those that failed."""
        found, own = {}, {row["part"] for row in self.rows}
        for path in sorted(path for path in self.results.glob("*.json") if path.stem in own and self.new(path)):
            with contextlib.suppress(ValueError, OSError):
                found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        bad = [row["part"] for row in self.rows if row["end"] not in WELL]
        page = {
            "call": self.number,
            "tiny": self.tiny,
            "commit": commit_of(self.repo),
            "at": time.strftime("%Y-%m-%dT%H:%M:%S"),
            "seconds": round(time.time() - self.began),
            "parts": self.rows,
            "found": found,
            "failed": {name: tail(self.logs / f"{name}.log") for name in bad},
        }
        written(self.summary, json.dumps(page, indent=1))

    @property
    def summary(self) -> Path:
        """The file of the summary."""
        return self.out / f"summary-call{self.number}.json"

    def keep(self) -> None:
        """What ended well, for a later call on this machine."""
        before = [{"part": name, "end": "ended before"} for name in self.known]
        written(self.work / "ended.json", json.dumps({"tiny": self.tiny, "parts": [*self.rows, *before]}))


def known(folder: Path, work: Path, tiny: bool) -> set[str]:
    """Parts that ended well, by the summaries of earlier calls."""
    found: set[str] = set()
    for path in (*folder.glob("summary-call*.json"), *work.glob("ended.json")):
        with contextlib.suppress(ValueError, OSError, KeyError, TypeError):
            page = json.loads(path.read_text(encoding="utf-8"))
            if page.get("tiny") == tiny:
                found |= {row["part"] for row in page["parts"] if row["end"] in WELL}
    return found


def end_all(process: subprocess.Popen[bytes]) -> None:
    """No process of the part's group is left: it would slow the next one, or keep memory of the GPU."""
    for number, patience_s in ((signal.SIGTERM, 8.0), (signal.SIGKILL, 5.0)):
        gone, until = told(process, number), time.monotonic() + patience_s
        while not gone and time.monotonic() < until:
            time.sleep(0.1)
            gone = told(process, 0)
        if gone:
            return


def told(process: subprocess.Popen[bytes], number: int) -> bool:
    """Sends a signal to the group; whether no process of it is left."""
    process.poll()
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return True
    return False


def tail(path: Path) -> str:
    """The end of a log."""
    return path.read_bytes()[-TAIL_BYTES:].decode("utf-8", "replace") if path.is_file() else ""


def commit_of(repo: Path) -> str:
    """The commit that was packed, else that of the checkout."""
    packed = repo / PACKED / "commit.txt"
    return packed.read_text(encoding="utf-8").strip() if packed.is_file() else commit(repo)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What is asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("call", choices=sorted(BUDGETS))
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--began", type=float, required=True)
    parser.add_argument("--only", default="", help="parts whose name holds this text")
    parser.add_argument("--skip", default="", help="parts whose name holds none of these texts, separated by commas")
    parser.add_argument("--budget", type=float, default=0.0, help="seconds from the start of the call")
    parser.add_argument("--again", action="store_true", help="also parts that ended before")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for and not done, pack, and print what was found."""
    asked = parsed(arguments)
    call, skipped = Call(asked), [text for text in asked.skip.split(",") if text]
    for part in parts_of(asked.call, asked.repo, call.work, call.tiny):
        if asked.only in part.name and not any(text in part.name for text in skipped):
            call.run(part)
    call.tell()
    pack(call.out, call.work, call.number, call.new)
    call.keep()
    for row in call.rows:
        print(f"{row['s']:>7}  {row['part']:<24} {row['end']}")
    sys.stdout.flush()
    subprocess.run(script("told", call.summary), check=False)
    return int(any(row["end"] not in WELL for row in call.rows))


if __name__ == "__main__":
    sys.exit(main())
