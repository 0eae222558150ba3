"""The tables of all commands together."""

from options import (
    of_analyze,
    of_comparing,
    of_data,
    of_looking_up,
    of_planning,
    of_reading,
    of_run,
    of_services,
    of_trigger,
    of_tune,
)
from options.tree import commands

JOBS = of_run.JOBS | of_tune.JOBS | of_data.JOBS | of_trigger.JOBS
EFFECTS = [*of_run.EFFECTS, *of_tune.EFFECTS, *of_data.EFFECTS, *of_trigger.EFFECTS]
ROWS = [*of_analyze.ROWS, *of_comparing.ROWS, *of_reading.ROWS, *of_planning.ROWS, *of_looking_up.ROWS]
HELP = {(command, option) for command in commands() for option in ("-h", "--help")}
COVERED = {(of.command, of.option) for of in (*ROWS, *EFFECTS)} | of_services.PAIRS | HELP
