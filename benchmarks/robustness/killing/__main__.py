"""Ends every command at every moment, and says what is lost or left.

    python -m benchmarks.robustness.killing                   # at each moment: minutes
    python -m benchmarks.robustness.killing --random 300      # and so many at random times; some need torch
    python -m benchmarks.robustness.killing --only "baseline save" --how kill

At each moment that a command is about to change a file it is killed, or from there on its disk is full or read-only;
and it runs with a wall clock that jumps. Afterwards every file is whole or absent, no process of it runs on, and the
same command, run again, answers and removes what the other left. A process that is not killed ends with a code that is
documented, without a traceback, and leaves nothing. Otherwise the exit code is 1.
"""

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from reporting import parser, table

from .commands import COMMANDS
from .moments import How
from .tries import Found, at_moment, at_random_time, imported, look, tidy
from .world import World, working_folder

HOWS: tuple[How, ...] = ("kill", "full", "read-only", "clock")


@dataclass
class Tally:
    """Tries by command and how they were disturbed, how many left something for a while, and what went wrong."""

    tries: Counter[tuple[str, str]] = field(default_factory=Counter)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, how: str, moment: str, found: Found) -> None:
        """One try more."""
        self.tries[name, how] += 1
        self.left[name, how] += bool(found.left)
        wrong = [f"{name}, {how} at {moment}: {what}" for what in found.wrong]
        sys.stderr.write("".join(f"{line}\n" for line in wrong))
        self.wrong += wrong


def main() -> int:
    """The exit code: 1 where something was lost or left."""
    options = parser(__doc__, writes=False)
    options.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    options.add_argument("--how", nargs="*", choices=[how for how in get_args(How) if how != "nothing"], default=HOWS)
    options.add_argument("--random", type=int, default=0, help="kills at random times, over all commands")
    given = options.parse_args()
    imported()
    tally = Tally()
    with working_folder() as folder:
        for number, name in enumerate(given.only):
            if COMMANDS[name].at_moments and given.how:
                _each_moment(tally, Path(folder), name, given.how)
            _random_times(tally, Path(folder), name, range(number, given.random, len(given.only)))
            sys.stderr.write(f"{name}: {sum(n for (of, _), n in tally.tries.items() if of == name)} tries\n")
    sys.stdout.write(_page(tally))
    return int(bool(tally.wrong))


def _each_moment(tally: Tally, folder: Path, name: str, hows: tuple[How, ...]) -> None:
    """Of a folder where the command has not run; it is killed in one where it has, too."""
    command = COMMANDS[name]
    fresh = World(folder / "fresh", command)
    used = World(folder / "used", command, fresh)
    at_moment(used, command, "nothing", 0)
    for like in (fresh, used):
        world = World(folder / "usual", command, like)
        ended = at_moment(world, command, "nothing", 0)
        usual = world.files()
        if ended.code not in command.codes:
            tally.wrong.append(f"{name} ends with {ended.code} undisturbed: {ended.told[-300:]}")
        tidy(world)
        for how in hows if like is fresh else [how for how in hows if how == "kill"]:
            for moment in range(1, 2 if how == "clock" else ended.moments + 1):
                world = World(folder / "try", command, like)
                found = look(world, command, at_moment(world, command, how, moment), how, usual)
                tally.add(name, how, f"moment {moment} of {ended.moments}", found)
                tidy(world)
    tidy(fresh), tidy(used)


def _random_times(tally: Tally, folder: Path, name: str, seeds: range) -> None:
    if not seeds:
        return
    command, used = COMMANDS[name], World(folder / "used", COMMANDS[name])
    began = time.monotonic()
    at_random_time(used, command, None)
    usual, usual_s = used.files(), time.monotonic() - began
    for seed in seeds:
        world = World(folder / "try", command, used if command.at_moments else None)
        found = look(world, command, at_random_time(world, command, 1.1 * usual_s, seed), "kill", usual)
        tally.add(name, "kill at any time", f"seed {seed}", found)
        tidy(world)
    tidy(used)


def _page(tally: Tally) -> str:
    hows = list(dict.fromkeys(how for _, how in tally.tries))
    rows = []
    for name in dict.fromkeys(name for name, _ in tally.tries):
        left = sum(tally.left[name, how] for how in hows if how != "read-only")
        rows.append([name, *(f"{tally.tries[name, how]:,}" for how in hows), f"{left:,}"])
    counted = f"{tally.tries.total():,} tries, {len(tally.wrong)} wrong"
    return "\n".join(
        [table(["command", *hows, "left something for a while"], rows), "", counted, *dict.fromkeys(tally.wrong), ""]
    )


if __name__ == "__main__":
    sys.exit(main())
