"""The user's functions of a typical rank by Python time, and the lines that cause each finding."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from diagnose.diagnosis import CodeLine, CodePlace, Finding, UserFunction
from diagnose.diagnosis import UserCode as UserCodeReport
from diagnose.facts import Facts, Unknown, another_run, spoken
from diagnose.formulas.statistics import share_error
from diagnose.judge.case import Case
from diagnose.judge.stack_tree import stack_tree
from diagnose.metrics import Measured
from diagnose.metrics.lines.sampled import WITH_STACK
from diagnose.metrics.lines.user_code import SAMPLES, Function, FunctionTime, ThreadWork, entry, summed
from diagnose.rule import Rule
from diagnose.rule.lines import Lines
from diagnose.trace.stacks import Frame

FUNCTIONS_KEPT = 100
LINES_NAMED = 3
LEAST_SHARE = 0.02  # of what a finding names: a sample or two of two hundred are chance
_COLLECTOR = Unknown("samples of the stack do not show the garbage collector", WITH_STACK)
_ALONE = Unknown(
    "no other rank's stack was sampled or recorded to compare with", another_run("capture all ranks with diagnose run")
)
_IN_WORKERS = Unknown(
    "loader workers load the batches, and their stacks are not sampled",
    another_run("run a few steps with no loader workers: their code is then in the training process"),
)
Known = ThreadWork | Unknown | None


def user_code_of(measured: Measured) -> UserCodeReport | None:
    """The user's functions of one rank, or why they are unknown; None if nothing looked for them."""
    known = measured.user_code
    if known.training is None:
        return None
    if isinstance(known.training, Unknown):
        return UserCodeReport(because=known.training.because, capture_next=known.training.capture_next)
    code = known.training
    functions = _functions(code)
    samples = round(code.whole) if code.source == SAMPLES else None
    return UserCodeReport(
        functions=functions,
        of=code.of,
        other_share=max(1.0 - sum(each.share for each in functions), 0.0),
        stacks=stack_tree(code),
        samples=samples,
        half_error=None if samples is None else 2 * share_error(samples // 2, samples),
        cost_share=known.cost_share if code.source == SAMPLES else None,
    )


def _functions(code: ThreadWork) -> tuple[UserFunction, ...]:
    """The functions with most time of their own first, then those with most time including callees."""
    own = {each.function: each for each in code.own}
    listed = sorted(code.altogether, key=lambda each: -own[each.function].weight if each.function in own else 0.0)
    return tuple(_function(own.get(each.function), each, code) for each in listed[:FUNCTIONS_KEPT])


def _function(own: FunctionTime | None, altogether: FunctionTime, code: ThreadWork) -> UserFunction:
    at = own or altogether
    return UserFunction(
        file=at.function[0],
        line=at.line,
        function=at.function[1],
        share=code.share(own.weight) if own else 0.0,
        total_share=code.share(altogether.weight),
        doing=at.doing,  # type: ignore[arg-type]
        calls=at.calls.name if at.calls else "",
        calls_share=code.share(at.calls.weight) if at.calls else 0.0,
    )


def located(findings: Sequence[Finding], rules: Iterable[Rule], case: Case, typical: Measured) -> tuple[Finding, ...]:
    """The findings, each with the lines of the user's code that its rule asks for: of a typical rank, or the late."""
    lines = {rule.id: rule.lines for rule in rules}
    return tuple(_located(finding, lines[finding.rule], case, typical) for finding in findings)


def _located(finding: Finding, lines: Lines | None, case: Case, typical: Measured) -> Finding:
    if lines is None or not lines.apply(case.facts):
        return finding
    of_phase = next((m for m in case.measured if not m.waits_in_phase), typical)
    code = _code(lines, of_phase if lines.phase else typical)
    where = _beyond_others(case) if lines.excess else _where(lines, code, case.facts)
    if isinstance(where, Unknown):
        return replace(finding, where_because=where.because, where_capture_next=where.capture_next)
    return replace(finding, where=where)


def _code(lines: Lines, typical: Measured) -> Known:
    """The code of the steps that the rule is about: the counted ones, or those of the slow phase."""
    code = typical.user_code
    if lines.of_collector and code.recorded is not None:
        return code.recorded
    return code.slow if lines.phase else code.usual


def _where(lines: Lines, code: Known, facts: Facts) -> tuple[CodeLine, ...] | Unknown:
    """The functions whose time the rule's lines select; none if nothing looked for them."""
    if code is not None and lines.of_loading and facts["loader_workers"].value == "some":
        return _IN_WORKERS
    if not isinstance(code, ThreadWork):
        return code or ()
    if lines.of_collector and code.source == SAMPLES:
        return _COLLECTOR
    functions = code.spent_by(lambda stack: lines.choose(stack.doing, stack.calls))
    named = _named(functions, code, f"{code.of} in these slow steps" if lines.phase else code.of)
    return named or Unknown(
        f"no line of your code that this is about takes {spoken(LEAST_SHARE, 'share')} of {code.of}", None
    )


def _beyond_others(case: Case) -> tuple[CodeLine, ...] | Unknown:
    """The functions in which the latest rank spends more of a step than the median of the other ranks."""
    codes = {m.timeline.rank: m.user_code.training for m in case.measured}
    late = next((straggler.rank for straggler in case.job.stragglers), None)
    own = codes.pop(late, None) if late is not None else None
    if not isinstance(own, ThreadWork):
        return own or ()
    others = [code for code in codes.values() if isinstance(code, ThreadWork) and code.source == own.source]
    if not others:
        return _ALONE
    named = _named(_excess(own, others), own, f"{own.of} of rank {late}, beyond the other ranks")
    return named or Unknown(f"no function of your code takes rank {late} longer than the others", None)


def _excess(own: ThreadWork, others: Sequence[ThreadWork]) -> list[FunctionTime]:
    """Time beyond that of the median of the others, most first: of the outermost functions with little other time,
    and elsewhere of the innermost ones.
    """
    beyond = _beyond_usual(own, others, lambda code: code.altogether)
    alone = own.devoted(beyond)
    entries = summed((entry(stack, alone), stack) for stack in own.stacks)
    at_own_lines = _beyond_usual(own, others, lambda code: code.own)
    weights = [(beyond if each.function in alone else at_own_lines).get(each.function, 0.0) for each in entries]
    found = [replace(each, weight=weight) for each, weight in zip(entries, weights, strict=True)]
    return sorted(found, key=lambda each: -each.weight)


def _beyond_usual(
    own: ThreadWork, others: Sequence[ThreadWork], times: Callable[[ThreadWork], list[FunctionTime]]
) -> dict[Function, float]:
    """The time of each function beyond its time in the median step of the others."""
    usual = [{each.function: code.ns(each.weight) for each in times(code)} for code in others]
    return {
        each.function: each.weight - own.weight(float(np.median([ns.get(each.function, 0.0) for ns in usual])))
        for each in times(own)
    }


def _named(functions: Sequence[FunctionTime], code: ThreadWork, of: str) -> tuple[CodeLine, ...]:
    return tuple(
        CodeLine(
            file=each.function[0],
            line=each.line,
            function=each.function[1],
            share=code.share(each.weight),
            of=of,
            most_in=_place(each.most_in) if each.most_in else None,
            calls=each.calls.name if each.calls else "",
            calls_share=code.share(each.calls.weight) if each.calls else 0.0,
        )
        for each in functions[:LINES_NAMED]
        if code.share(each.weight) >= LEAST_SHARE
    )


def _place(frame: Frame) -> CodePlace:
    return CodePlace(file=frame.file, line=frame.line, function=frame.function)
