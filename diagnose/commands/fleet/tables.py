"""Many jobs as tables with typed columns, for CSV and Parquet files."""

from collections.abc import Iterable

from diagnose.commands.fleet.answer import Fleet
from diagnose.diagnosis.terms import Speedup
from diagnose.report.tables import CapacityTable, Columns, Fields, records, typed

_CAUSES: Fields = {
    "cause": ("cause", str),
    "class": ("class_", str),
    "spent": ("spent", str),
    "gpu_hours": ("gpu_hours", float),
    "share_of_all": ("share", float),
    "price": ("price", float),
    "jobs": ("jobs", int),
    "first_day": ("first_day", str),
}
_GROUPS: Fields = {
    "kind": ("kind", str),
    "name": ("name", str),
    "jobs": ("jobs", int),
    "gpu_hours": ("gpu_hours", float),
    "lost_gpu_hours": ("lost_gpu_hours", float),
    "lost_share_of_its_own": ("lost_share", float),
    "lost_price": ("price", float),
    "cause": ("cause", str),
}
_HOSTS: Fields = {
    "host": ("host", str),
    "fault": ("fault", str),
    "answer": ("answer", str),
    "jobs": ("jobs", int),
    "times": ("times", int),
    "expected_times": ("expected", float),
    "p_value": ("p_value", float),
    "waited_gpu_hours": ("gpu_hours", float),
    "first_day": ("first_day", str),
    "last_day": ("last_day", str),
    "because": ("because", str),
}
_TRENDS: Fields = {
    "cause": ("cause", str),
    "answer": ("answer", str),
    "since_day": ("since_day", str),
    "before_share": ("before_share", float),
    "after_share": ("after_share", float),
    "p_value": ("p_value", float),
    "because": ("because", str),
}
_DAYS: Fields = {
    "day": ("day", str),
    "cause": ("cause", str),
    "gpu_hours": ("gpu_hours", float),
    "share_of_day": ("share", float),
}
_HOST_DAYS: Fields = {
    "host": ("host", str),
    "day": ("day", str),
    "gpu_hours": ("gpu_hours", float),
    "waited_gpu_hours": ("waited_gpu_hours", float),
}
_CHANGES: Columns = {
    "rule": str,
    "action": str,
    "effort": str,
    "changes_numerics": bool,
    "jobs": int,
    "gpu_hours_low": float,
    "gpu_hours_high": float,
    "price_low": float,
    "price_high": float,
}
_JOBS: Columns = {
    "job": str,
    "label": str,
    "gpus": int,
    "devices": str,
    "hosts": int,
    "windows": int,
    "began": str,
    "hours": float,
    "hours_from": str,
    "gpu_hours": float,
    "not_counted_because": str,
    "lost_share": float,
    "cause": str,
    "price": float,
    "verdict": str,
    "next": str,
    "returned_gpu_hours_low": float,
    "returned_gpu_hours_high": float,
    "source": str,
}


def fleet_tables(fleet: Fleet) -> dict[str, CapacityTable]:
    """Every table by the name of its file; unknown values are empty cells."""
    return {
        "jobs": typed(_JOBS, _jobs(fleet)),
        "causes": records(_CAUSES, fleet.causes),
        "groups": records(_GROUPS, fleet.groups),
        "changes": typed(_CHANGES, _changes(fleet)),
        "hosts": records(_HOSTS, fleet.hosts),
        "trends": records(_TRENDS, fleet.trends),
        "days": records(_DAYS, fleet.days),
        "host_days": records(_HOST_DAYS, fleet.host_days),
        "unread": records({"file": ("file", str), "why": ("why", str)}, fleet.unread),
    }


def _jobs(fleet: Fleet) -> Iterable[list[object]]:
    for job in fleet.jobs:
        what = [job.name, job.label, job.gpus, ", ".join(job.devices), job.hosts, job.windows, job.began, job.hours]
        took = [job.hours_from, job.gpu_hours, job.because, job.lost_share, job.cause, job.price]
        yield [*what, *took, job.verdict, job.next, *_range(job.returned), job.source]


def _changes(fleet: Fleet) -> Iterable[list[object]]:
    for row in fleet.changes:
        yield [row.rule, row.action, row.effort, row.numerics, row.jobs, *_range(row.gpu_hours), *_range(row.price)]


def _range(amount: Speedup | None) -> tuple[float | None, float | None]:
    return amount or (None, None)
