"""Every GPU-hour is in one cause and in one group of each kind, and every gain is counted once."""

from pathlib import Path

import pytest
from fleets import fleet_at, made_job, written
from msgspec.structs import replace

from diagnose.commands.fleet import views as view
from diagnose.commands.fleet.html import fleet_page
from diagnose.commands.fleet.judging import returned_by
from diagnose.commands.fleet.window import PlannedChange
from diagnose.diagnosis import Speedup
from diagnose.report.views.summary import About


def test_hours_go_to_causes_and_groups_that_add_up(tmp_path: Path) -> None:
    jobs = {
        "nlp/a": made_job(("n1", "n2"), causes={"data-wait": 0.25}),
        "nlp/b": made_job(("n2",), causes={"data-wait": 0.5, "dispatch": 0.1}),
        "vision/c": made_job(("n3",), device="NVIDIA A100-SXM4-80GB", causes={"exposed-communication": 0.2}),
    }
    fleet = fleet_at(written(tmp_path, jobs), hours=10.0, price=2.0)

    hours = {row.cause: row.gpu_hours for row in fleet.causes}
    assert fleet.gpu_hours == pytest.approx(10 * (16 + 8 + 8))
    assert hours["data-wait"] == pytest.approx(0.25 * 160 + 0.5 * 80)
    assert sum(hours.values()) == pytest.approx(fleet.gpu_hours)
    assert fleet.lost_gpu_hours == pytest.approx(40 + 40 + 8 + 16)
    assert fleet.price == pytest.approx(2 * fleet.lost_gpu_hours)
    for kind in ("label", "gpu", "host"):
        rows = [row for row in fleet.groups if row.kind == kind]
        assert sum(row.gpu_hours for row in rows) == pytest.approx(fleet.gpu_hours)
        assert sum(row.lost_gpu_hours for row in rows) == pytest.approx(fleet.lost_gpu_hours)
    lost = {(row.kind, row.name): row.lost_gpu_hours for row in fleet.groups}
    assert lost["label", "nlp"] == pytest.approx(88)
    assert lost["host", "n2"] == pytest.approx(0.25 * 80 + 0.6 * 80)
    assert lost["gpu", "NVIDIA A100-SXM4-80GB"] == pytest.approx(16)


def test_ranks_without_a_trace_count_and_are_on_no_known_host(tmp_path: Path) -> None:
    job = made_job(("n1",), gpus_each=2, causes={"data-wait": 0.5})
    partly = replace(job, trace=replace(job.trace, missing_ranks=(2, 3)))
    fleet = fleet_at(written(tmp_path, {"a": partly}))

    hosts = {row.name: row.gpu_hours for row in fleet.groups if row.kind == "host"}
    assert hosts == {"n1": pytest.approx(48), "": pytest.approx(48)}
    assert fleet.lost_gpu_hours == pytest.approx(48)


def test_what_captures_do_not_tell_is_said_beneath_what_is_lost(tmp_path: Path) -> None:
    job = made_job(causes={"data-wait": 0.3, "gpu-activity-missing": 0.5})
    fleet = fleet_at(written(tmp_path, {"a": job}), hours=10.0)

    assert view.headline(fleet) == "at least 24.0 of 80.0 GPU-hours are lost (30.0 %): no kernel computes then"
    assert view.unknown_line(fleet) == "another 40.0 may be lost, too (50.0 %): no capture covers them"
    assert "Another 40.0 may be lost, too (50.0 %): no capture covers them" in fleet_page(
        fleet, About("1.0", "diagnose fleet DIR")
    )


def test_no_price_is_no_money(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"a": made_job(causes={"data-wait": 0.5})}))

    assert fleet.price is None
    assert all(row.price is None for row in (*fleet.causes, *fleet.groups, *fleet.jobs, *fleet.changes))


def planned(rule: str, *cumulative: float | None) -> PlannedChange:
    return PlannedChange(rule, rule, "setting", False, cumulative)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "shares"),
    [
        ([planned("a", 1.25, 2.0)], [(0.2, 0.5)]),
        # after a, b takes of what is left: 0.8 - 0.625 in the worst case, 0.5 - 0.4 in the best
        ([planned("a", 1.25, 2.0), planned("b", 1.6, 2.5)], [(0.2, 0.5), (0.1, 0.175)]),
        ([planned("a", 1.25, None), planned("b", 2.0, None)], [(0.2, None), (0.3, None)]),
        ([planned("a", 1.0, 1.25)], [(0.0, 0.2)]),
        # what slows the job is taken back, and gives nothing to what follows it
        ([planned("a", 0.8, 1.25), planned("b", 1.25, 2.5)], [(0.0, 0.2), (0.2, 0.4)]),
        ([], []),
    ],
)
def test_a_plan_never_returns_a_gain_twice(plan: list[PlannedChange], shares: list[Speedup]) -> None:
    found = [each.share for each in returned_by(plan)]

    assert [low for low, _ in found] == pytest.approx([low for low, _ in shares])
    assert [high for _, high in found] == pytest.approx([high for _, high in shares])


def test_changes_of_one_job_return_together_what_its_plan_does(tmp_path: Path) -> None:
    plan: list[tuple[str, Speedup]] = [("data-wait", (1.25, 1.6)), ("fp8", (2.0, 3.2))]
    jobs = {"a": made_job(plan=plan), "b": made_job(plan=plan[:1])}
    fleet = fleet_at(written(tmp_path, jobs), hours=1.0)

    rows = {row.rule: row for row in fleet.changes}
    assert (rows["data-wait"].jobs, rows["data-wait"].action) == (2, "do data-wait")
    assert rows["data-wait"].gpu_hours == pytest.approx((2 * 8 * 0.2, 2 * 8 * 0.375))
    assert rows["fp8"].gpu_hours == pytest.approx((8 * 0.3, 8 * 0.3125))
    assert fleet.all_changes == pytest.approx((8 * (0.5 + 0.2), 8 * (0.6875 + 0.375)))
    assert [row.rule for row in fleet.changes] == ["data-wait", "fp8"]
