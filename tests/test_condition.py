"""The language of rules against Python's own `eval`, with facts known and with facts hidden."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from diagnose.facts import Fact, Facts, Scalar, Unknown
from diagnose.rule.condition import MAX_LENGTH, Condition, RuleError

KNOWN = {
    "wait_share": "share",
    "idle_share": "share",
    "steps": "count",
    "peak_bytes": "bytes",
    "spread_factor": "factor",
    "has_gpu": "flag",
    "optimizer_kind": "text",
    "training_loop": "text",
}
NUMBERS = ("wait_share", "idle_share", "spread_factor")


def facts(**values: Scalar) -> Facts:
    """The given facts known, all others unknown."""
    return {name: Fact(name, values.get(name, Unknown("not measured", None)), unit) for name, unit in KNOWN.items()}


def parse(text: str) -> Condition:
    return Condition.parse(text, KNOWN, "some.toml: warning")


number = st.one_of(st.sampled_from(NUMBERS), st.integers(0, 9).map(str), st.sampled_from(["0.1", "2.5", "1e3"]))


def arithmetic(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda text: f"-({text})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(st.sampled_from(["abs", "ceil"]), inner).map(lambda p: f"{p[0]}({p[1]})"),
    )


def logic(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
    return st.one_of(joined, inner.map(lambda text: f"not ({text})"))


numbers = st.recursive(number, arithmetic, max_leaves=4)
order = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
comparison = st.one_of(
    st.tuples(numbers, order, numbers).map(" ".join),
    st.tuples(numbers, order, numbers, order, numbers).map(" ".join),
    st.sampled_from(["has_gpu", "optimizer_kind == 'fused'", "optimizer_kind != 'single'", "has_gpu == False", "True"]),
)
conditions = st.recursive(comparison, logic, max_leaves=5).filter(lambda text: len(text) <= MAX_LENGTH)
quantity = st.one_of(st.integers(-5, 5), st.floats(-9, 9).map(lambda x: round(x, 2)))
worlds = st.fixed_dictionaries(
    dict.fromkeys(NUMBERS, quantity)
    | {"has_gpu": st.booleans(), "optimizer_kind": st.sampled_from(["fused", "single", "none seen"])}
)


@given(conditions, worlds)
def test_known_facts_give_what_python_gives(text: str, world: dict[str, Scalar]) -> None:
    try:
        expected = eval(text, {"__builtins__": {}, "min": min, "max": max, "abs": abs, "ceil": math.ceil}, dict(world))
    except ArithmeticError:
        assume(False)
    answer = parse(text).evaluate(facts(**world))
    # Python does not look at what `and` and `or` skip; here a division by zero there is still unknown.
    assert answer is expected or (answer is None and "/" in text and "and" not in text and "or" not in text)


@given(conditions, worlds, st.sets(st.sampled_from([*NUMBERS, "has_gpu", "optimizer_kind"])))
def test_hidden_facts_make_the_answer_unknown_or_leave_it(
    text: str, world: dict[str, Scalar], hidden: set[str]
) -> None:
    condition = parse(text)
    partly = facts(**{name: value for name, value in world.items() if name not in hidden})
    answer, whole = condition.evaluate(partly), condition.evaluate(facts(**world))
    assert answer is None or answer is whole
    assert set(condition.missing(partly)) <= hidden
    if answer is None and whole is not None:
        assert condition.missing(partly)


@given(numbers, worlds)
def test_numbers_are_those_of_python(text: str, world: dict[str, Scalar]) -> None:
    try:
        expected = eval(text, {"__builtins__": {}, "min": min, "max": max, "abs": abs, "ceil": math.ceil}, dict(world))
    except ArithmeticError:
        expected = None
    assert parse(text).value(facts(**world)) == expected


@given(conditions, worlds)
def test_evidence_is_given_exactly_when_the_condition_holds(text: str, world: dict[str, Scalar]) -> None:
    condition = parse(text)
    evidence = condition.evidence(facts(**world))
    assert set(evidence) <= condition.names
    if condition.evaluate(facts(**world)) is not True:
        assert evidence == ()


@pytest.mark.parametrize(
    ("text", "values", "answer"),
    [
        ("wait_share > 0.1", {}, None),
        ("wait_share > 0.1 and idle_share > 0.1", {"idle_share": 0.0}, False),
        ("wait_share > 0.1 or idle_share > 0.1", {"idle_share": 0.2}, True),
        ("not wait_share > 0.1", {}, None),
        ("0.1 < wait_share < 0.5", {"wait_share": 0.3}, True),
        ("idle_share > 0.5 > wait_share", {"idle_share": 0.3}, False),
        ("wait_share / (steps - 5) > 0", {"wait_share": 0.3, "steps": 5}, None),
        ("wait_share * 1e308 * 1e308 > 0", {"wait_share": 0.3}, None),
        ("wait_share > 0", {"wait_share": math.nan}, None),
        ("peak_bytes / 2 > 1.0", {"peak_bytes": 10**400}, None),
        ("spread_factor > wait_share", {"spread_factor": 2.0, "wait_share": 0.1}, True),
        ("wait_share\n  > 0.1", {"wait_share": 0.2}, True),
    ],
)
def test_three_values(text: str, values: dict[str, Scalar], answer: bool | None) -> None:
    assert parse(text).evaluate(facts(**values)) is answer


def test_numpy_scalars_count_as_python_numbers() -> None:
    condition = parse("wait_share > 0.1 and steps > 1")
    world = facts(wait_share=np.float64(0.2), steps=np.int64(3))
    assert condition.evaluate(world) is True
    assert condition.evidence(world) == ("wait_share", "steps")


def test_a_fact_that_was_never_listed_is_unknown() -> None:
    assert parse("wait_share > 0.1").evaluate({}) is None


@pytest.mark.parametrize(
    ("text", "values", "evidence"),
    [
        ("wait_share > 0.1 and idle_share > 0.1", {"wait_share": 0.2, "idle_share": 0.2}, ("wait_share", "idle_share")),
        ("idle_share > 0.1 or wait_share > 0.1", {"wait_share": 0.2, "idle_share": 0.0}, ("wait_share",)),
        ("not wait_share > 0.1", {"wait_share": 0.05}, ("wait_share",)),
        ("has_gpu and max(idle_share, wait_share) > 0", {"has_gpu": True, "wait_share": 0.2, "idle_share": 0.1},
         ("has_gpu", "idle_share", "wait_share")),
        ("(has_gpu and idle_share > 0.5) or wait_share > 0.1",
         {"has_gpu": True, "wait_share": 0.2, "idle_share": 0.1}, ("wait_share",)),
    ],
)  # fmt: skip
def test_evidence(text: str, values: dict[str, Scalar], evidence: tuple[str, ...]) -> None:
    assert parse(text).evidence(facts(**values)) == evidence


def test_missing_names_only_what_decides() -> None:
    condition = parse("(idle_share > 0.5 and steps > 3) or wait_share > 0.1")
    assert condition.missing(facts(idle_share=0.1)) == ("wait_share",)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 - wait_share", "share"),
        ("wait_share * 0.5", "share"),
        ("wait_share / idle_share", "number"),
        ("steps * peak_bytes", "number"),
        ("wait_share * peak_bytes", "bytes"),
        ("peak_bytes * wait_share", "bytes"),
        ("peak_bytes / 2", "bytes"),
        ("max(2, ceil(spread_factor))", "number"),
        ("optimizer_kind", "text"),
        ("has_gpu", "flag"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    assert parse(text).kind == kind


def test_a_number_is_not_a_condition() -> None:
    with pytest.raises(TypeError, match="not a condition"):
        parse("wait_share").evaluate(facts(wait_share=0.5))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("wait_share = 0.1", 12, "write == to compare"),
        ("wait_shar > 0.1", 1, "did you mean 'wait_share'?"),
        ("steps > 1 and idle_shares > 0.1", 15, "did you mean 'idle_share'?"),
        ("wait_share > 0.1; steps > 1", 17, "cannot be read"),
        ("", 1, "empty"),
        ("wait_share >", 13, "cannot be read"),
        ("steps.__class__ == 1", 1, "not part of the language"),
        ("[x for x in steps]", 1, "not part of the language"),
        ("9 ** 9 ** 9 > 1", 6, "not part of the language"),
        ("steps % 2 == 0", 1, "not part of the language"),
        ("steps in (1, 2)", 10, "not part of the language"),
        ("f'{steps}' == 'a'", 1, "not part of the language"),
        ("b'a' == b'a'", 1, "not part of the language"),
        ("1e999 > steps", 1, "not part of the language"),
        ("1j > steps", 1, "not part of the language"),
        ("steps > 1 if has_gpu else True", 1, "not part of the language"),
        ("sum(steps, 1) > 2", 1, "not part of the language"),
        ("min(steps, 1, key=abs) > 2", 1, "not part of the language"),
        ("min(steps) > 2", 1, "min takes two numbers or more"),
        ("abs(steps, 1) > 2", 1, "abs takes one number"),
        ("ceil() > 2", 1, "ceil takes one number"),
        ("'a' * 1000000 == 'b'", 1, "calculates with text"),
        ("optimizer_kind > 3", 1, "compares text with number"),
        ("optimizer_kind == 3", 1, "compares text with number"),
        ("optimizer_kind < 'b'", 1, "orders text values"),
        ("training_loop == 'lightning'", 1, "training_loop is never 'lightning'"),
        ("'Accelerate' != training_loop and training_loop != 'my'", 35, "training_loop is never 'my'"),
        ("has_gpu > 0", 1, "compares flag with number"),
        ("steps == True", 1, "compares count with flag"),
        ("has_gpu + 1 > 1", 1, "calculates with a flag"),
        ("-has_gpu == 1", 1, "calculates with a flag"),
        ("wait_share and has_gpu", 1, "join comparisons and flags"),
        ("not steps", 1, "join comparisons and flags"),
        ("wait_share > peak_bytes", 1, "mixes units: share and bytes"),
        ("wait_share > steps", 1, "mixes units: share and count"),
        ("wait_share + peak_bytes > 1", 1, "mixes units: share and bytes"),
        ("max(wait_share, steps) > 1", 1, "mixes units: share and count"),
        ("'é' == optimizer_kind and nothing > 1", 27, "no fact is named 'nothing'"),
        ("not " * 125 + "has_gpu", 1, "500 characters"),
        ("-" * 450 + "steps > 1", 51, "nested deeper"),
        ("[" + "-" * 450 + "steps]", 1, "not part of the language"),
        ("(" * 245 + "steps" + ")" * 245, 1, "cannot be read"),
        ("steps > 1\0", 1, "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_refused_and_how(text: str, column: int, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert "some.toml: warning" in str(caught.value)
    if "500" not in message:
        assert f"column {column}\n" in str(caught.value) + "\n" or "cannot be read" in message


@pytest.mark.parametrize(
    ("known", "expected"),
    [({}, 16), ({"steps": 3}, 3), ({"steps": 0}, 0)],
    ids=["unknown", "known", "zero is known"],
)
def test_first_known_is_the_fact_or_what_stands_for_it(known: dict[str, Scalar], expected: int) -> None:
    assert parse("first_known(steps, 16) < 99").evaluate(facts(**known)) is True
    assert parse("min(20, first_known(steps, 16))").value(facts(**known)) == expected
    assert parse("first_known(steps, 16) < 99").missing(facts(**known)) == ()


def test_first_known_needs_two_of_one_unit() -> None:
    with pytest.raises(RuleError, match="first_known takes two"):
        parse("first_known(steps) < 1")
    with pytest.raises(RuleError, match="mixes units"):
        parse("first_known(steps, peak_bytes) < 1")
