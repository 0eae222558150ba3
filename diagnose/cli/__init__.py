"""The command line. `diagnose --help` loads neither numpy nor any command."""

import click

from diagnose import __version__
from diagnose.cli.group import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_in={
        "Profile a job": {
            "run": (
                "diagnose.commands.run.command",
                "Run a training command, record a few steps, and explain what slows it down.",
            ),
            "tune": (
                "diagnose.commands.tune.command",
                "Try one change after another on short runs, and keep those that measurably help.",
            ),
            "data": (
                "diagnose.commands.data.command",
                "Find the slowest stage of the input pipeline and the number of workers needed.",
            ),
            "trigger": (
                "diagnose.commands.armed.command",
                "Record a few steps now, in a job started with `diagnose run --arm`.",
            ),
            "doctor": ("diagnose.commands.doctor.command", "Check what this machine lets diagnose record."),
        },
        "Read what a job left": {
            "analyze": (
                "diagnose.commands.analyze.command",
                "Explain why a training job is slow, from its trace, and what to change first.",
            ),
            "compare": (
                "diagnose.commands.compare.command",
                "Show which of two runs is faster, how certain that is, and what changed.",
            ),
            "baseline": (
                "diagnose.commands.compare.baseline_command",
                "Save a run as a reference and warn when a later one is slower.",
            ),
            "series": (
                "diagnose.commands.series.command",
                "Find stalls and slowdowns in the step times of a whole run.",
            ),
            "watch": (
                "diagnose.commands.watch.command",
                "See how a job runs that was started with `diagnose run --arm`.",
            ),
            "hang": ("diagnose.commands.hang.command", "Find the rank that a hanging job waits for."),
            "memory": (
                "diagnose.commands.memory.command",
                "Show what fills GPU memory at its peak and why an allocation failed.",
            ),
            "fleet": (
                "diagnose.commands.fleet.command",
                "Show where a cluster's GPU-hours go and which fixes save most.",
            ),
        },
        "Plan a job": {
            "fit": (
                "diagnose.commands.fit.command",
                "Estimate, before the run, whether a job fits, how fast it is, and how to split it.",
            ),
            "scaling": ("diagnose.commands.scaling.command", "Show how speed and cost change with the number of GPUs."),
        },
        "Look up": {
            "mcp": (
                "diagnose.commands.agents.command",
                "Give an AI agent access to analyze, compare, explain and fit.",
            ),
            "skill": ("diagnose.commands.agents.skill", "Print a SKILL.md that teaches coding agents to use diagnose."),
            "explain": (
                "diagnose.commands.explain.command",
                "Explain a finding, a term, or a metric, with the numbers of your last run.",
            ),
            "rules": ("diagnose.cli.rules", "List all checks."),
            "metrics": ("diagnose.cli.metrics", "List all measured quantities."),
            "hardware": ("diagnose.commands.hardware.command", "Show the peak speeds and bandwidths of known GPUs."),
            "ledger": ("diagnose.commands.ledger.command", "Show how well earlier predictions came true."),
            "schema": ("diagnose.commands.schema.command", "Print the JSON Schema of the outputs."),
            "completion": ("diagnose.cli.completion", "Print the shell completion script."),
        },
    },
    epilog="Example:  diagnose analyze runs/llama/",
)
@click.version_option(__version__, prog_name="diagnose")
def main() -> None:
    """Read PyTorch profiler traces and say why the job is slow, what to change, and how much that buys."""
