"""A view as metrics of OpenTelemetry: a line of OTLP in JSON, as the collector's file receiver reads them.

https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/ says what a line is.
"""

import json
import time
from collections.abc import Mapping
from typing import Any

from diagnose.commands.watch.metrics import Metric, metrics
from diagnose.commands.watch.view import View
from diagnose.version import __version__

_CUMULATIVE = 2
_NAMES = {"host": "host.name", "rank": "diagnose.rank", "state": "diagnose.run.state"}


def otlp_line(view: View, run: str) -> str:
    """The metrics of the run with its name, at this moment."""
    at = str(time.time_ns())
    told = {
        "resource": {"attributes": _attributes({"service.name": "diagnose", "diagnose.run": run})},
        "scopeMetrics": [
            {
                "scope": {"name": "diagnose", "version": __version__},
                "metrics": [_metric(metric, at) for metric in metrics(view)],
            }
        ],
    }
    return json.dumps({"resourceMetrics": [told]}, separators=(",", ":")) + "\n"


def _metric(metric: Metric, at: str) -> dict[str, Any]:
    points = [
        {
            "attributes": _attributes({_NAMES[key]: text for key, text in attributes.items()}),
            "timeUnixNano": at,
            "asDouble": value,
        }
        for attributes, value in metric.points
    ]
    data: dict[str, Any] = {"dataPoints": points}
    if metric.kind == "counter":
        data |= {"aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
    kind = "sum" if metric.kind == "counter" else "gauge"
    return {"name": f"diagnose.{metric.otel}", "description": metric.says, "unit": metric.unit, kind: data}


def _attributes(texts: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()]
