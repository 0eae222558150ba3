"""Hosts at fault in more jobs than chance: planted ones are named, healthy ones are not, few jobs tell nothing."""

from pathlib import Path

import numpy as np
import pytest
from fleets import fleet_at, made_job, written

from diagnose.commands.fleet.answer import Fleet, FleetHost
from diagnose.diagnosis import Diagnosis

HOSTS = tuple(f"n{number}" for number in range(8))


def rows(fleet: Fleet, fault: str) -> dict[str, FleetHost]:
    return {row.host: row for row in fleet.hosts if row.fault == fault}


def on(late: str, number: int, **more: object) -> Diagnosis:
    return made_job(HOSTS, gpus_each=1, late=late, began=f"2026-08-{number + 1:02}T00:00:00Z", **more)  # type: ignore[arg-type]


def test_the_host_that_is_late_in_most_jobs_is_named(tmp_path: Path) -> None:
    jobs = {f"job{i}": on("n3" if i % 4 else HOSTS[i % 8], i) for i in range(12)}
    fleet = fleet_at(written(tmp_path, jobs), hours=10.0)

    found = rows(fleet, "late rank")
    assert [host for host, row in found.items() if row.answer == "yes"] == ["n3"]
    guilty = found["n3"]
    assert (guilty.times, guilty.jobs, guilty.expected) == (9, 12, 1.5)
    assert guilty.p_value is not None
    assert guilty.p_value < 1e-4
    assert guilty.gpu_hours == pytest.approx(9 * 80 * 0.1 * 7 / 8), "a tenth of the other seven ranks' steps"
    assert (guilty.first_day, guilty.last_day) == ("2026-08-02", "2026-08-12")
    assert guilty.reasons == ("because its kernels are slower",)
    assert fleet.hosts_tested == {"late rank": 8, "clock held down": 0}


def test_a_host_with_most_of_the_ranks_is_late_most_often_by_chance(tmp_path: Path) -> None:
    places = ("big",) * 15 + ("small",)
    jobs = {f"job{i}": made_job(places, gpus_each=1, late="big") for i in range(12)}
    fleet = fleet_at(written(tmp_path, jobs))

    assert [(row.host, row.answer) for row in fleet.hosts] == [("big", "unknown")]


def test_few_jobs_tell_nothing(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"a": on("n3", 1), "b": on("n3", 2)}))

    only = rows(fleet, "late rank")["n3"]
    assert (only.answer, only.p_value) == ("unknown", None)
    assert "so few jobs cannot tell among 8 hosts" in only.because


def test_late_ranks_anywhere_accuse_no_host(tmp_path: Path) -> None:
    draws = np.random.default_rng(5).integers(0, 8, 60).tolist()
    fleet = fleet_at(written(tmp_path, {f"job{i}": on(HOSTS[at], i % 28) for i, at in enumerate(draws)}))

    assert {row.answer for row in fleet.hosts} == {"no"}


def test_what_the_job_gives_a_rank_to_do_is_no_fault_of_its_host(tmp_path: Path) -> None:
    jobs = {}
    for i in range(12):
        job = on("n3", i)
        straggler = job.stragglers[0]
        more = {name: getattr(straggler, name) for name in straggler.__struct_fields__} | {"cause": "more_work"}
        jobs[f"job{i}"] = made_job(HOSTS, gpus_each=1, stragglers=(type(straggler)(**more),))
    fleet = fleet_at(written(tmp_path, jobs))

    assert fleet.hosts == ()


def test_a_host_whose_clocks_heat_holds_down_is_named(tmp_path: Path) -> None:
    jobs = {}
    for i in range(40):
        host = HOSTS[i % 8]
        held = {host: ("heat",) if host == "n5" else ("its power limit",)}
        jobs[f"job{i}"] = made_job((host,), held=held, began=f"2026-08-{i % 28 + 1:02}T00:00:00Z")
    jobs["one-off"] = made_job(("n1",), held={"n1": ("heat",)})
    fleet = fleet_at(written(tmp_path, jobs))

    found = rows(fleet, "clock held down")
    assert (found["n5"].answer, found["n5"].times, found["n5"].jobs) == ("yes", 5, 5)
    assert found["n1"].answer == "no"
    assert set(found) == {"n1", "n5"}, "a power limit is no fault"


def test_a_host_with_no_other_to_compare_to_is_not_accused(tmp_path: Path) -> None:
    jobs = {f"job{i}": made_job(("n1",), held={"n1": ("heat",)}) for i in range(20)}
    fleet = fleet_at(written(tmp_path, jobs))

    (only,) = fleet.hosts
    assert (only.answer, only.p_value) == ("unknown", None)
    assert only.because.endswith("and no other host has readings to compare it with")
    assert fleet.hosts_tested["clock held down"] == 0


def test_two_readings_of_another_host_accuse_nobody(tmp_path: Path) -> None:
    """Half of all jobs are held down, and the two of the other host happen not to be."""
    jobs = {f"job{i}": made_job(("n1",), held={"n1": ("heat",) if i < 20 else ()}) for i in range(30)}
    jobs |= {f"other{i}": made_job(("n2",), held={"n2": ()}) for i in range(2)}
    fleet = fleet_at(written(tmp_path, jobs))

    assert [(row.host, row.answer) for row in fleet.hosts] == [("n1", "no")]
