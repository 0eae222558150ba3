"""What is fitted on some kinds of faults and scored on others: halves, the fits, and the section of the page."""

import pytest
from accuracy.answer import Answer
from accuracy.corpus import Case
from accuracy.kept_reports import kinds_left_out
from accuracy.left_out import Corpus, figures, in_view, on_a_cpu, text_of
from accuracy.mechanisms import mechanisms_of
from accuracy.page import PAGE, page, with_left_out
from accuracy.recorded import Recorded, judged, true_classes
from accuracy.refit import Scale, best_value, by_threshold, scale_of
from accuracy.score import Outcome, Score
from accuracy.truth import Truth
from promises import Pair
from simulator import WholeJob
from test_verdict import GROUNDS, ledger

HOST, COMPUTE = "host-bound", "compute-bound"


PAIRS = [Pair("", rule, 1, 2, gain, "") for rule, gain in (("data-wait", 2), ("data-wait", 2), ("gc-pauses", 1))]


def case(name: str, *rules: str, late: str = "") -> Case:
    return Case(name, "base", "mild", 3, WholeJob(), rules, late=((0, late),) if late else ())


KINDS = [
    case("a loader", "data-wait"),
    case("a worker", "bursts-of-data-wait", "data-wait"),
    case("rank: a loader", "straggler", late="data"),
    case("rank: slow", "straggler", late="slower_kernels"),
    case("eager", "unfused-attention"),
    case("a loader and eager", "data-wait", "unfused-attention"),
    case("fine"),
]


def job(name: str, rule: str, host: float, true: str, bought: float = 1.0, low: float = 0.0) -> Recorded:
    """One whose host is seen to take this share, too `low` by so much, and whose promise is 1.1 to 1.21x."""
    said = COMPUTE if host < 0.20 else HOST
    shares = {"data": 0.0, "host": host + low, "communication": 0.0, "compute": 1 - host - low, "memory": 0.0}
    answer = Answer(said, (), rule, (rule,), {rule: (1.1, 1.21)}, (), ())
    outcome = Outcome(case(name, rule), Truth(true, "", shares, {rule: bought}), answer)
    return Recorded(outcome, ledger(host=host, compute=1 - host), GROUNDS)


def corpus_of_two() -> Corpus:
    """The host of one mechanism is measured too low: its own fit has it right, at 17 %, and none on the other does."""
    low = [job("slow host", "launch-bound", 0.17, HOST, low=0.05)] * 3
    usual = [job("eager", "unfused-attention", share, true) for share, true in ((0.19, COMPUTE), (0.21, HOST))]
    return Corpus([*low, *usual])


def test_kinds_that_a_rule_cures_or_that_one_cause_delays_are_one_mechanism() -> None:
    mechanisms = mechanisms_of(KINDS)

    assert mechanisms.of_kind == {
        "a loader": ("a loader",),
        "a worker": ("a loader",),
        "rank: a loader": ("a loader",),
        "rank: slow": ("rank: slow",),
        "eager": ("eager",),
        "a loader and eager": ("a loader", "eager"),
        "fine": ("fine",),
    }


def test_a_kind_that_shares_a_rule_with_two_mechanisms_makes_one_of_them() -> None:
    apart = [case("one", "gc-pauses"), case("two", "data-wait")]
    mechanisms = mechanisms_of([*apart, case("three", "gc-pauses", "data-wait")])

    assert {*mechanisms_of(apart).of_kind.values()} == {("one",), ("two",)}
    assert {*mechanisms.of_kind.values()} == {("one",)}


@pytest.mark.parametrize("seed", range(8))
def test_halves_share_no_mechanism_and_two_faults_at_once_are_fitted_on_where_both_are(seed: int) -> None:
    mechanisms = mechanisms_of(KINDS)
    homes = [mechanisms.home(each) for each in KINDS]
    one, other = mechanisms.halves(homes, seed)

    assert not one & other
    assert one | other == {*homes}
    assert 2 * sum(home in one for home in homes) >= len(homes)
    assert (one, other) == mechanisms.halves(homes, seed)
    both = KINDS[5]
    assert mechanisms.within(both, one) is ({"a loader", "eager"} <= one)


def test_a_value_is_fitted_on_the_chosen_jobs_alone_and_of_equals_is_the_middle() -> None:
    said = {0.1: (HOST, HOST), **dict.fromkeys((0.2, 0.3, 0.4), (COMPUTE, HOST)), 0.5: (COMPUTE, COMPUTE)}

    assert best_value(said, [COMPUTE, HOST], [0, 1]) == 0.3
    assert best_value(said, [HOST, COMPUTE], [0]) == 0.1
    assert best_value(said, [HOST, COMPUTE], [1]) == 0.5


def test_a_class_is_judged_again_by_other_thresholds_which_then_are_as_they_were() -> None:
    records = [job("slow host", "launch-bound", 0.17, COMPUTE)]

    assert judged(records, {"NAMES_THE_CLASS": 0.15}) == true_classes(records, {"NAMES_THE_CLASS": 0.15}) == [HOST]
    assert judged(records, {}) == true_classes(records, {}) == [COMPUTE]
    assert set(by_threshold(records)) == {"NAMES_THE_CLASS"}


def test_ranges_are_centred_on_what_was_bought_and_hold_as_much_as_before() -> None:
    outcomes = [job("slow host", "launch-bound", 0.3, HOST, 1.21).outcome] * 6

    scale = scale_of(outcomes)
    ((_, low, high, _),) = scale.of(outcomes[0]).ranges

    assert scale.positions == {"host": pytest.approx(1.0)}
    assert (low * high) ** 0.5 == pytest.approx(1.21)
    assert high / low < 1.1
    assert Score([scale.of(each) for each in outcomes]).covered.share == 1


def test_a_stretch_is_of_the_logarithm_and_other_classes_take_the_position_of_all() -> None:
    outcome = job("slow host", "launch-bound", 0.3, HOST, 1.2).outcome

    ((_, low, high, _),) = Scale({"data": 0.0}, of_others=0.5, stretch=2).of(outcome).ranges

    assert (low, high) == pytest.approx((1.1 / 1.1**0.5, 1.21 * 1.1**0.5))


def test_each_job_is_scored_once_in_a_halving_by_what_was_fitted_without_it() -> None:
    corpus = corpus_of_two()

    fold = corpus.fold(frozenset({"slow host"}))

    assert best_value(corpus.said["NAMES_THE_CLASS"], [HOST] * 3, [0, 1, 2]) < 0.17
    assert fold.thresholds["NAMES_THE_CLASS"] == pytest.approx(0.20)
    assert [one.answer.class_ for one in fold.outcomes] == [COMPUTE] * 3
    assert {len(score.outcomes) for score in corpus.scores} == {5}
    assert str(corpus.spotless(corpus.shipped)) == "1 of 2 (50.0 %)"
    assert "| class right | 2 of 5, 40.0 % (5 to 85) |" in figures(corpus)
    assert "in 0 of 100 halvings" in in_view(corpus)


def test_the_report_names_what_is_wrong_and_what_a_rule_is_known_by() -> None:
    text = text_of({"simulated": corpus_of_two()}, PAIRS)

    assert f"| simulated | slow host, mild, base, seed 3 | {HOST} | {COMPUTE} | yes |" in text
    assert "Of 2 rules whose promise is measured, 2 promise something in one mechanism alone." in text
    assert "| 20 % | 2 of 5, 40.0 % (5 to 85) |" in text
    assert "| 15 % | 5 of 5, 100.0 % (48 to 100) |" in text


def test_the_likely_value_of_a_real_pair_is_judged_by_pairs_of_other_rules() -> None:
    text = on_a_cpu(PAIRS)

    assert text.startswith("3 pairs of 2 rules. ")
    assert "| fitted on all | 1.00 | 0.0 % |" in text
    assert "| fitted without all pairs of its rule | 0.00 to 1.00 | 50.0 % |" in text


def test_the_page_shows_the_report_and_only_its_section_is_renewed() -> None:
    score = Score([job("eager", "unfused-attention", 0.3, HOST).outcome])
    text = page(score, [], "", "", left_out="class right: 3 of 4")

    renewed = with_left_out(text, "class right: 4 of 4")

    assert "## Kinds left out\n\nclass right: 3 of 4\n\n## Others" in text
    assert renewed == text.replace("class right: 3 of 4", "class right: 4 of 4")
    assert "python -m benchmarks.accuracy.left_out" in page(score, [], "", "")


def test_the_page_of_the_documentation_holds_the_newest_report() -> None:
    said = kinds_left_out()

    assert said.startswith("[left-out-")
    assert f"## Kinds left out\n\n{said}\n\n## " in PAGE.read_text(encoding="utf-8")
