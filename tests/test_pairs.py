"""`python -m benchmarks.pairs`: what it takes of a diagnosis, how advice is followed, what lies inside and is kept."""

import ast
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from advice_jobs.kinds import KINDS, Kind
from advice_jobs.timing import options
from pairs.following import followed_options, missing
from pairs.kept import keep, kept, state_of
from pairs.page import row, summary, verdict, written
from pairs.runs import SCRIPTS, command
from pairs.score import Offer, Outcome, Ran, Told, others_share, same_samples, samples_of, told_of
from promises import FITTED, Pair, Usual, by_others, kept_pairs, usual

RULES = Path(__file__).parent.parent / "rules"
LOADER = KINDS[0]


def first(kind: str = "change", **more: Any) -> Mapping[str, Any]:
    patch = {"target": "dataloader", "set": {"num_workers": 2}}
    said = {"kind": kind, "rule": "data-wait", "predicted_speedup": [1.5, None], "patch": patch} | more
    return {"next": said, "verdict": {"class": "data-bound"}}


def test_the_first_advice_is_that_of_the_diagnosis() -> None:
    offers = {"data-wait": Offer(1.5)}
    patched = Told("data-wait", offers, {"num_workers": 2}, "data-bound", "num_workers=2", tried=True)

    assert told_of(first()) == patched
    assert told_of(first(patch=None, predicted_speedup=None)) == Told("data-wait", class_="data-bound")
    assert told_of(first("nothing", patch=None, predicted_speedup=None)) == Told("", class_="data-bound")


def test_a_promise_is_that_of_the_right_rule_whichever_came_first() -> None:
    found = [
        {"rule": "cpu-optimizer", "predicted_speedup": [1.0, 1.1]},
        {"rule": "data-wait", "predicted_speedup": [2.0, 4.0], "likely_speedup": 3.0},
    ]
    told = told_of({**first(rule="cpu-optimizer", predicted_speedup=[1.0, 1.1]), "findings": found})
    outcome = Outcome(LOADER, told, (2.5,))

    assert (outcome.right, outcome.offer, outcome.inside) == (False, Offer(2.0, 4.0, 3.0), True)
    assert outcome.off == pytest.approx(0.2)
    assert Outcome(LOADER, Told("cpu-optimizer", {"cpu-optimizer": Offer(1.0, 1.1)}), (2.5,)).inside is None


def test_the_text_of_the_advice_is_what_the_user_reads() -> None:
    said = {"action": "use more workers", "do": "Set num_workers.", "says": "It waits.", "where": ["read (a.py:3)"]}

    assert told_of(first(**said)).text == "use more workers Set num_workers. It waits. read (a.py:3) num_workers=2"


def test_a_change_that_must_be_typed_is_not_tried() -> None:
    by_hand = {"set": {"num_workers": 2}, "typed_because": "nothing of it can be set by a run"}

    assert told_of(first()).tried
    assert not told_of(first(patch=by_hand)).tried
    assert told_of(first(patch={"set": {}, "by_run": {"fused": True}})).tried


def test_a_verdict_that_is_withheld_for_others_is_seen() -> None:
    busy = {"class": "undecided", "because": "the machine was too busy to judge this job"}

    assert told_of({**first(), "verdict": busy}).busy
    assert told_of(first(action="keep other work off these cores")).busy
    assert not told_of(first()).busy


def test_the_value_of_the_patch_is_followed_before_that_of_the_kind() -> None:
    assert followed_options(LOADER, told_of(first()))["workers"] == 2
    assert followed_options(LOADER, Told("data-wait"))["workers"] == LOADER.followed["workers"]


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
    offers = {} if promised is None else {"data-wait": Offer(*promised)}

    assert Outcome(LOADER, Told("data-wait", offers), speedups).inside is inside


def test_a_healthy_job_is_right_with_no_advice() -> None:
    healthy = next(kind for kind in KINDS if not kind.right and not kind.says)

    assert Outcome(healthy, Told("")).right
    assert not Outcome(healthy, Told("data-wait")).right
    assert not Outcome(LOADER, Told("")).right


def test_a_class_is_right_where_the_job_is_made_to_have_it() -> None:
    unstated = next(kind for kind in KINDS if not kind.classes)

    assert Outcome(LOADER, Told("", class_="data-bound")).class_right is True
    assert Outcome(LOADER, Told("", class_="host-bound")).class_right is False
    assert Outcome(unstated, Told("", class_="host-bound")).class_right is None


@pytest.mark.parametrize(
    ("rule", "text", "is_right"),
    [
        ("data-wait", "call os.sched_setaffinity in worker_init_fn", True),
        ("data-wait", "set num_workers", False),
        ("python-host", "call os.sched_setaffinity", False),
        ("data-wait", "os.sched_setaffinity, and a faster disk", False),
    ],
)
def test_words_that_must_and_must_not_be_there(rule: str, text: str, is_right: bool) -> None:
    bound = Kind("bound", "loader.py", {}, ("data-wait",), says="sched_setaffinity", never="faster disk")

    assert Outcome(bound, Told(rule, text=text)).right is is_right


def test_words_alone_are_right_under_any_rule() -> None:
    half = Kind("fp16", "bare.py", {}, (), says="bf16|bfloat16")

    assert Outcome(half, Told("slow-type", text="autocast to bfloat16")).right
    assert not Outcome(half, Told("")).right


def test_advice_that_harms_is_not_right() -> None:
    told = Told("data-wait")

    assert Outcome(LOADER, told, typed="ran", samples=True).right
    assert Outcome(LOADER, told, typed="refused").right
    assert verdict(Outcome(LOADER, told, typed="crashed")) == "no: crashes when typed"
    assert verdict(Outcome(LOADER, told, samples=False)) == "no: other samples"
    assert verdict(Outcome(LOADER, told, failures=("ended with 1: OSError",))) == "no: ended with 1: OSError"


def test_what_is_withheld_or_left_out_is_neither_right_nor_inside() -> None:
    told = Told("data-wait", {"data-wait": Offer(1.0, 2.0)}, class_="data-bound")
    crowded = Outcome(LOADER, told, (1.5,), crowded=True)
    absent = Outcome(LOADER, told, missing=("trl",))

    assert (crowded.right, crowded.inside, crowded.class_right, verdict(crowded)) == (False, None, None, "withheld")
    assert (absent.right, verdict(absent)) == (False, "left out: needs trl")


def test_packages_that_are_not_installed_are_named() -> None:
    assert missing(Kind("one", "loader.py", {}, (), needs=("json", "no_such_package"))) == ("no_such_package",)


def test_the_digests_of_all_ranks_add_up() -> None:
    assert samples_of(f"loss 3\nsamples {2**64 - 1} 4\nmean_step_ns 5\nsamples 3 4\n") == (2, 8)
    assert samples_of("mean_step_ns 5\n") is None


@pytest.mark.parametrize(
    ("seen", "same"),
    [
        ([(1, 4), (1, 4)], True),
        ([(1, 4), (3, 12)], False),
        ([(1, 4), None, (1, 4)], True),
        ([(1, 4)], None),
        ([None, None], None),
    ],
)
def test_samples_are_the_same_in_all_runs_that_count_them(
    seen: list[tuple[int, int] | None], same: bool | None
) -> None:
    assert same_samples([Ran(1, each) for each in seen]) is same


def test_a_run_is_crowded_by_what_others_take_of_the_cores() -> None:
    assert others_share(busy_s=3.0, own_s=2.0, wall_s=5.0, cores=2) == pytest.approx(0.1)
    assert others_share(busy_s=2.0, own_s=2.1, wall_s=5.0, cores=2) == 0
    assert Ran(1, others=0.1).crowded()
    assert not Ran(1, others=0.1).crowded(limit=1.0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_names_a_rule_that_exists_and_options_that_its_script_has(kind: Kind) -> None:
    script = ast.parse((SCRIPTS / kind.script).read_text())
    known = {
        word.arg
        for call in ast.walk(script)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "options"
        for word in call.keywords
    } | {line.target.id for line in ast.walk(script) if isinstance(line, ast.AnnAssign) and hasattr(line.target, "id")}

    assert {*kind.slow, *kind.followed, *kind.by_patch.values()} <= known
    assert all((RULES / f"{rule}.toml").exists() for rule in kind.right if rule)


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


def measured() -> Outcome:
    return Outcome(
        LOADER, Told("data-wait", {"data-wait": Offer(1.5, 3.0, 2.0)}, {"workers": 2}), (1.9, 2.0, 2.4), "ran", True
    )


def test_what_was_measured_is_kept_for_the_same_state_and_repeats(tmp_path: Path) -> None:
    file, kinds = tmp_path / "below" / "kept.jsonl", {LOADER.name: LOADER}
    assert list(kept(file, kinds, "now", 3)) == []

    keep(file, measured(), "now", 3)
    keep(file, Outcome(LOADER, Told("data-wait"), crowded=True), "now", 3)
    with file.open("ab") as opened:
        opened.write(b'{"kind": "cut')

    assert list(kept(file, kinds, "now", 3)) == [measured()]
    assert (
        list(kept(file, kinds, "later", 3)) == list(kept(file, kinds, "now", 1)) == list(kept(file, {}, "now", 3)) == []
    )


def test_the_state_changes_with_a_rule(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    rule = tmp_path / "rules" / "one.toml"
    states = []
    for text in ("a = 1", "a = 2", "a = 1"):
        rule.write_text(text)
        states.append(state_of(tmp_path))

    assert states[0] == states[2] != states[1]


def test_the_report_holds_coverage_with_the_width_and_its_pairs_are_read_again(tmp_path: Path) -> None:
    unforeseen = Outcome(LOADER, Told(""), (1.5,))
    outcomes = [measured(), unforeseen]

    assert row(measured())[4:8] == ("1.50-3.00x", "2.00x", "2.00x (1.90 to 2.40)", "yes")
    assert row(unforeseen)[7] == "not promised"
    assert (
        "gain inside the range as shown: 1 of 1, median width 2.00x, likely value off by 0% in the median"
        in summary(outcomes)
    )
    assert "gains of 5 % or more that nothing promised: 1" in summary(outcomes)
    report, _ = written(outcomes, tmp_path, "now")
    assert f"| {LOADER.name} |" in report.read_text()
    assert f"{FITTED}: 1 of 1, median width 2.00x; inside from worst to best case: 1 of 1" in summary(outcomes)
    (pair,) = kept_pairs(tmp_path)
    assert (pair.job, pair.rule, pair.low, pair.high, pair.measured) == (LOADER.name, "data-wait", 1.5, 3.0, 2.0)


def test_the_usual_range_is_the_narrowest_that_holds_enough_and_rests_on_the_pairs_of_other_rules() -> None:
    """Gains from the worst to the best case, one of each rule; the lowest is given up, and by others the next.

    A gain counts with its noise, so that the low end lies a little above the one that is kept.
    """
    pairs = [Pair(f"job {at}", f"rule {at}", 2.0, 4.0, 2 * 2 ** (at / 10), "here") for at in range(11)]
    beyond = [replace(pair, measured=5.0) for pair in pairs]
    nothing_sure = replace(pairs[0], low=1.0)

    assert usual(pairs) == Usual(0.14, 1.0)
    assert usual(beyond) == Usual(0.98, 1.25)
    assert usual(pairs[:9]) == Usual(0.0, 1.0)
    assert (by_others(pairs)[0].low, by_others(pairs)[0].high) == pytest.approx((2 * 2**0.24, 4.0))
    assert nothing_sure.usual(Usual(0.5, 2.0)) == nothing_sure


def test_a_promise_is_the_usual_range_and_its_pair_keeps_the_cases(tmp_path: Path) -> None:
    said = {"rule": "data-wait", "predicted_speedup": [2.0, 4.0], "usual_speedup": [2.5, 4.0]}
    outcome = Outcome(LOADER, told_of({**first(**said), "findings": [said]}), (2.2,))

    assert (outcome.offer, outcome.inside) == (Offer(2.5, 4.0, None, (2.0, 4.0)), False)
    written([outcome], tmp_path, "now")
    (pair,) = kept_pairs(tmp_path)
    assert (pair.low, pair.high, pair.inside) == (2.0, 4.0, True)
