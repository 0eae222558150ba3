"""`diagnose schema`: the shape of the JSON output."""

import json

import click

from diagnose import diagnosis
from diagnose.analysis import armed
from diagnose.cli.exit_status import writing
from diagnose.diagnosis.comparison import comparison_schema
from diagnose.diagnosis.fleet import fleet_schema
from diagnose.dumps.hang import answer as hang
from diagnose.dumps.memory import answer as memory
from diagnose.patch.promises import tally
from diagnose.predict.data_pipeline import answer as data_pipeline
from diagnose.predict.scaling import answer as scaling
from diagnose.series import findings as series

_OF = {
    "analyze": diagnosis.schema,
    "armed": armed.schema,
    "series": series.schema,
    "compare": comparison_schema,
    "data": data_pipeline.schema,
    "scaling": scaling.schema,
    "ledger": tally.schema,
    "hang": hang.schema,
    "memory": memory.schema,
    "fleet": fleet_schema,
}


@click.command(epilog="Example:  diagnose schema > diagnosis.schema.json")
@click.option(
    "--of",
    type=click.Choice(list(_OF)),
    default="analyze",
    help="Whose --json to describe.",
)
def schema(of: str) -> None:
    """Print the JSON Schema of `analyze --json`, or of another command's --json."""
    with writing():
        click.echo(json.dumps(_OF[of](), indent=2))
