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
                "Run a training command, capture a few of its steps, and say why it is slow.",
            ),
            "tune": (
                "diagnose.commands.tune.command",
                "Run a job again and again, each time with one more change, and keep what makes it faster.",
            ),
            "data": (
                "diagnose.commands.data.command",
                "Say how fast each stage of the input is, which is the slowest, and how many workers a step needs.",
            ),
            "trigger": (
                "diagnose.commands.armed.command",
                "Open a window in a job that runs under `diagnose run --arm`.",
            ),
            "doctor": ("diagnose.commands.doctor.command", "Say what a capture can see on this machine."),
        },
        "Read what a job left": {
            "analyze": ("diagnose.commands.analyze.command", "Say why a training job is slow and what to change next."),
            "compare": (
                "diagnose.commands.compare.command",
                "Say whether run B is faster than run A, by how much beyond the noise, and where that comes from.",
            ),
            "baseline": (
                "diagnose.commands.compare.baseline_command",
                "Keep a run under version control, and say when a later one is slower.",
            ),
            "series": (
                "diagnose.commands.series.command",
                "Say which steps of a job stall, since when it is slower, and what to look at.",
            ),
            "hang": (
                "diagnose.commands.hang.command",
                "Say which rank a hanging job waits for and at which call, or which rank calls something else.",
            ),
            "memory": (
                "diagnose.commands.memory.command",
                "Say what a job's memory consists of at its peak, and why free memory cannot be used.",
            ),
            "fleet": (
                "diagnose.commands.fleet.command",
                "Say where the GPU-hours of many jobs went, which changes return most, and which hosts are at fault.",
            ),
        },
        "Plan a job": {
            "fit": (
                "diagnose.commands.fit.command",
                "Say whether a job will fit its GPUs, how fast it will be, and how to parallelize it.",
            ),
            "scaling": (
                "diagnose.commands.scaling.command",
                "Say how a job scales with its GPUs, and how many to take.",
            ),
        },
        "Look up": {
            "mcp": ("diagnose.commands.agents.command", "Let an agent call analyze, plan, compare, explain and fit."),
            "explain": (
                "diagnose.commands.explain.command",
                "Explain a finding, a term, or a metric, with the numbers of your last run.",
            ),
            "rules": ("diagnose.cli.rules", "List the rules."),
            "metrics": ("diagnose.cli.metrics", "List what is measured, with units and denominators."),
            "hardware": (
                "diagnose.commands.hardware.command",
                "List the known GPUs with their peaks, bandwidth and sources.",
            ),
            "ledger": (
                "diagnose.commands.ledger.command",
                "Say how often changes gained what was predicted, rule by rule.",
            ),
            "schema": ("diagnose.commands.schema.command", "Print the JSON Schema of `analyze --json`."),
            "completion": (
                "diagnose.cli.completion",
                "Print the script that makes a shell complete commands and options.",
            ),
        },
    },
    epilog="Example:  diagnose analyze runs/llama/",
)
@click.version_option(__version__, prog_name="diagnose")
def main() -> None:
    """Read PyTorch profiler traces and say why the job is slow, what to change, and how much that buys."""
