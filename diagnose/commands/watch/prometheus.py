"""A view in the text format of Prometheus, for the textfile collector of its node exporter; unknown is left out."""

from collections.abc import Iterator

from diagnose.commands.watch.metrics import Metric, metrics
from diagnose.commands.watch.view import View


def exposition(view: View, run: str) -> str:
    """The metrics of the run, each labelled with its name `run`."""
    return "".join(line for metric in metrics(view) for line in _lines(metric, run))


def _lines(metric: Metric, run: str) -> Iterator[str]:
    name = f"diagnose_{metric.prometheus}"
    yield f"# HELP {name} {metric.says}\n# TYPE {name} {metric.kind}\n"
    for attributes, value in metric.points:
        labels = {"run": run, **attributes}
        given = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{given}}} {value:.10g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
