"""The strip of hosts: on which days others waited for them, as the answer has it."""

from pathlib import Path

import pytest
from browser import CHROMIUM, browser
from fleets import fleet_at, made_job, written

from diagnose.commands.fleet.answer import Fleet
from diagnose.commands.fleet.html import fleet_page, host_strip
from diagnose.report.html import About

HOSTS = ("n1", "n2", "n3", "n4")


def week(folder: Path, late: tuple[str, ...]) -> Fleet:
    """A job on each day, on four hosts, of which that of the day holds up the others; "" for none."""
    jobs = {
        f"nlp/{day}": made_job(HOSTS, 2, late=host, began=f"2026-08-{day + 1:02}T00:00:00Z")
        for day, host in enumerate(late)
    }
    return fleet_at(written(folder, jobs))


def test_days_of_a_host_add_up_to_what_others_waited_for_it(tmp_path: Path) -> None:
    fleet = week(tmp_path, ("n2", "n2", "", "n2", "n3"))

    waited = {host.host: host.gpu_hours for host in fleet.hosts}
    assert set(waited) == {"n2", "n3"} == {row.host for row in fleet.host_days}
    for host, hours in waited.items():
        own = [row for row in fleet.host_days if row.host == host]
        assert sum(row.waited_gpu_hours for row in own) == pytest.approx(hours)
        assert len(own) == 5
    on = [row.day[-2:] for row in fleet.host_days if row.host == "n2" and row.waited_gpu_hours]
    assert on == ["01", "02", "04"]
    assert sum(row.gpu_hours for row in fleet.host_days) == pytest.approx(fleet.gpu_hours / 2)


def test_the_host_that_is_waited_for_most_comes_first(tmp_path: Path) -> None:
    strip = host_strip(week(tmp_path, ("n3", "n2", "n2")))

    assert strip is not None
    assert [host for host, _, _ in strip.hosts] == ["n2", "n3"]
    assert [cell.level > 0 for cell in strip.hosts[0][2]] == [False, True, True]


@pytest.mark.parametrize("late", [("", "", ""), ("n2",)])
def test_no_strip_without_a_late_host_or_of_one_day(late: tuple[str, ...], tmp_path: Path) -> None:
    assert host_strip(week(tmp_path, late)) is None


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_each_day_of_a_host_is_a_square(tmp_path: Path) -> None:
    fleet = week(tmp_path / "jobs", ("n2", "n2", "", "n2", "n3"))
    (tmp_path / "page.html").write_text(fleet_page(fleet, About("1")), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open(tmp_path / "page.html", width=400)

        hours = tab.run("[...document.querySelectorAll('.strip rect')].map(square => Number(square.dataset.hours))")
        assert sorted(hours) == sorted(row.waited_gpu_hours for row in fleet.host_days)
        assert tab.run("document.documentElement.scrollWidth") <= 400
        assert tab.complaints == []
