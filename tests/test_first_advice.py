"""benchmarks/first_advice.py: what it takes of a diagnosis, how the advice is followed, and what counts as inside."""

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from advice_jobs.kinds import KINDS, Kind
from advice_jobs.timing import options
from first_advice import SCRIPTS, Outcome, Told, command, followed_options, told_of

RULES = Path(__file__).parent.parent / "rules"
LOADER = KINDS[0]


def first(kind: str = "change", **more: Any) -> Mapping[str, Any]:
    patch = {"target": "dataloader", "set": {"num_workers": 2}}
    said = {"kind": kind, "rule": "data-wait", "predicted_speedup": [1.5, None], "patch": patch} | more
    return {"next": said, "verdict": {"class": "data-bound"}}


def test_the_first_advice_is_that_of_the_diagnosis() -> None:
    assert told_of(first()) == Told("data-wait", (1.5, None), {"num_workers": 2}, "data-bound")
    assert told_of(first(patch=None, predicted_speedup=None)) == Told("data-wait", None, {}, "data-bound")
    assert told_of(first("capture")) == told_of(first("nothing")) == Told("", None, {}, "data-bound")


def test_the_value_of_the_patch_is_followed_before_that_of_the_kind() -> None:
    assert followed_options(LOADER, told_of(first()))["workers"] == 2
    assert followed_options(LOADER, Told("data-wait", None, {}))["workers"] == LOADER.followed["workers"]


@pytest.mark.parametrize(
    ("promised", "speedups", "inside"),
    [
        ((1.5, 2.0), (1.4, 1.6, 9.0), True),
        ((1.5, 2.0), (1.3, 1.3, 1.6), False),
        ((1.5, 2.0), (2.0, 2.2, 2.6), True),
        ((1.5, 2.0), (2.2, 2.2, 2.6), False),
        ((1.5, None), (7.0,), True),
        (None, (1.5,), None),
        ((1.5, 2.0), (), None),
    ],
)
def test_the_median_of_the_repeats_is_inside_the_range(
    promised: tuple[float, float | None] | None, speedups: tuple[float, ...], inside: bool | None
) -> None:
    assert Outcome(LOADER, Told("data-wait", promised, {}), speedups).inside is inside


def test_a_healthy_job_is_right_with_no_advice() -> None:
    healthy = next(kind for kind in KINDS if not kind.right)

    assert Outcome(healthy, Told("", None, {})).right
    assert not Outcome(healthy, Told("data-wait", None, {})).right
    assert not Outcome(LOADER, Told("", None, {})).right


def test_a_class_is_right_where_the_job_is_made_to_have_it() -> None:
    unstated = next(kind for kind in KINDS if not kind.classes)

    assert Outcome(LOADER, Told("", None, {}, "data-bound")).class_right is True
    assert Outcome(LOADER, Told("", None, {}, "host-bound")).class_right is False
    assert Outcome(unstated, Told("", None, {}, "host-bound")).class_right is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_names_a_rule_that_exists_and_options_that_its_script_has(kind: Kind) -> None:
    script = ast.parse((SCRIPTS / kind.script).read_text())
    known = {
        word.arg
        for call in ast.walk(script)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "options"
        for word in call.keywords
    }

    assert {*kind.slow, *kind.followed, *kind.by_patch.values()} <= known
    assert not kind.right or any((RULES / f"{rule}.toml").exists() for rule in kind.right)


def test_several_ranks_are_started_by_torchrun() -> None:
    two = next(kind for kind in KINDS if kind.ranks == 2)

    assert "--nproc_per_node=2" in command(two, two.slow)
    assert command(LOADER, {"workers": 4})[1:] == [str(SCRIPTS / "loader.py"), "workers=4"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_script_reads_the_options_that_the_command_gives_it(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**kind.slow, **kind.followed}
    script = next(at for at, word in enumerate(command(kind, given)) if word.endswith(kind.script))
    monkeypatch.setattr(sys, "argv", command(kind, given)[script:])

    assert options(**{name: type(value)() for name, value in given.items()}) == given
