"""The explanation of a subject: its own text, with the numbers of a run where there is one."""

from collections.abc import Iterable, Mapping

from diagnose.attribution.causes import CAUSES
from diagnose.commands.explain.concept import ANY_CLASS, Concept, cause_text, concepts
from diagnose.commands.explain.conditions import fact_in_words, in_words
from diagnose.commands.explain.explanation import Explanation
from diagnose.commands.explain.naming import Subject
from diagnose.commands.explain.numbers import constants, known_units
from diagnose.commands.explain.run import Run
from diagnose.commands.explain.telling import told, yours
from diagnose.diagnosis import FORMULA, IRON_LAW, Finding, Quantity
from diagnose.facts import Facts, duration, in_a_sentence
from diagnose.metrics import REGISTRY
from diagnose.report.views.breakdown import basis
from diagnose.report.views.gains import gain_of
from diagnose.rule import Rule
from diagnose.rule.rule import spoken_fact

_RELATED = 5
_QUANTITIES: Mapping[Quantity, str] = {
    "D": "D, the bytes that move",
    "BW": "BW, the bandwidth at which bytes move",
    "O": "O, the operations",
    "R": "R, the peak rate of the device in the precision used",
    "eta": "eta, the part of the peak rate that is reached",
    "L": "L, the time of waiting, launching and synchronising",
}


def explanation_of(subject: Subject, rules: Mapping[str, Rule], run: Run | None = None) -> Explanation:
    """The explanation of a subject; `rules` are all of them by name."""
    facts = constants() if run is None else run.facts
    if subject.kind == "rule":
        return _of_rule(rules[subject.id], rules, run, facts)
    if subject.kind == "cause":
        return _of_cause(subject.id, rules, run, facts)
    return _of_fact(subject.id, rules, run, facts) if subject.kind == "fact" else _of_concept(subject, run, facts)


# A word or a class


def _of_concept(subject: Subject, run: Run | None, facts: Facts) -> Explanation:
    concept = concepts()[subject.id]
    found = [] if run is None else _findings(concept, run)
    return Explanation(
        name=subject.id,
        kind=subject.kind,
        title=concept.title,
        mechanism=told(concept.mechanism, facts),
        formula=told(concept.formula, facts),
        yours=_numbers(concept, run, facts),
        see_it=told(concept.see_it, facts),
        do=tuple(map(_change, found[:2])) or (told(concept.do, facts),),
        wrong_if=told(concept.wrong_if, facts),
        thresholds=tuple(told(each, facts) for each in concept.thresholds),
        source=concept.source,
        related=concept.related,
    )


def _findings(concept: Concept, run: Run) -> list[Finding]:
    """The findings of the run that the concept is about, the worst first."""
    if concept.class_ == ANY_CLASS:
        chosen = run.diagnosis.finding(run.diagnosis.next.rule)
        return [] if chosen is None else [chosen]
    return [each for each in run.diagnosis.findings if each.class_ == concept.class_]


def _numbers(concept: Concept, run: Run | None, facts: Facts) -> tuple[str, ...]:
    if run is None:
        return (told(concept.without_run, facts),) if concept.without_run else ()
    return yours(concept.yours, facts) or ("This run does not show the numbers.", told(concept.without_run, facts))


def _change(finding: Finding) -> str:
    """The change that a finding calls for: in a few words, with its gain, and how it is made."""
    predicted = gain_of(finding)
    head = f"{finding.action or finding.rule}{f' ({predicted})' if predicted else ''}"
    return f"{head[:1].upper()}{head[1:]}, by the rule {finding.rule}. {finding.do}"


# A rule


def _of_rule(rule: Rule, rules: Mapping[str, Rule], run: Run | None, facts: Facts) -> Explanation:
    more, units = concepts().get(rule.id, Concept()), known_units()
    why = rule.mechanism
    own_class = _class_of(rule)
    return Explanation(
        name=rule.id,
        kind="rule",
        title=rule.title,
        mechanism=told(f"{why.why} {more.mechanism}" if why else concepts()[own_class].mechanism, facts),
        formula=" ".join(filter(None, (told(more.formula, facts), _moved(rule)))),
        yours=() if run is None else _in_run(rule, run, more),
        see_it=told(more.see_it, facts) or _facts_told(rule),
        do=_advice(rule, run, facts),
        wrong_if=" ".join(filter(None, (told(rule.unless, facts), told(more.wrong_if, facts)))),
        thresholds=tuple(f"{severity} if {in_words(condition, units)}" for severity, condition in rule.conditions),
        source=why.source if why else "",
        related=more.related or (own_class, *_near(rule, rules)),
    )


def _moved(rule: Rule) -> str:
    """The quantity of the iron law that the remedy moves."""
    if rule.mechanism is None:
        return ""
    if rule.mechanism.term == "none":
        return "No term of the iron law: the remedy makes no step shorter."
    return f"The remedy moves {_QUANTITIES[rule.mechanism.term]}, in {FORMULA} (axis: {rule.mechanism.axis})."


def _in_run(rule: Rule, run: Run, more: Concept) -> tuple[str, ...]:
    """The rule in the run: all numbers if it fires, else why it does not."""
    finding, open_ = run.diagnosis.finding(rule.id), run.not_judged(rule.id)
    if finding is not None:
        return (finding.says, *yours(more.yours, run.facts))
    if open_ is not None:
        then = f"; to know it: {open_.capture_next}" if open_.capture_next else ""
        return (f"This run does not answer the rule: {open_.because}{then}.",)
    judged = rule.judge(run.facts)
    if judged.answer == "not_advised":
        return (f"The change would not help this run: {judged.because}.",)
    known = [name for name in sorted(rule.facts) if name in run.facts and run.facts[name].known]
    values = ", ".join(f"{fact_in_words(name)} {_spoken(name, run)}" for name in known[:4])
    return (f"The rule stays quiet in this run{f': {values}' if values else ''}.",)


def _advice(rule: Rule, run: Run | None, facts: Facts) -> tuple[str, ...]:
    finding = None if run is None else run.diagnosis.finding(rule.id)
    if finding is not None:
        return (_change(finding),)
    if run is not None:
        return ("Nothing in this run.",)
    return (told(rule.do, facts),)


def _facts_told(rule: Rule) -> str:
    """The facts of the rule's conditions, as their metrics describe them."""
    told_of = [name for name in sorted(rule.facts) if REGISTRY[name].unit not in ("flag", "text")] or sorted(rule.facts)
    return " ".join(f"{name}: {REGISTRY[name].doc}" for name in told_of[:2])


def _class_of(rule: Rule) -> str:
    """The name of the class that the rule belongs to."""
    classes = ((name, each) for name, each in concepts().items() if each.kind == "class")
    return next(name for name, each in classes if each.class_ == rule.class_)


def _near(rule: Rule, rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """The rules that read most of the same facts, but for those that many read."""
    of_many = frozenset({"has_gpu", "trains", "captured_with", "world_size", "step_count"})
    shared = {each.id: len((each.facts & rule.facts) - of_many) for each in rules.values() if each.id != rule.id}
    return tuple(sorted((name for name in shared if shared[name]), key=lambda name: -shared[name])[:_RELATED])


# A cause


def _of_cause(name: str, rules: Mapping[str, Rule], run: Run | None, facts: Facts) -> Explanation:
    cause, text = CAUSES[name], cause_text(name)
    assert text is not None, name
    law = IRON_LAW[cause.class_]
    about = tuple(dict.fromkeys((*text.rules, *_reading(f"{name.replace('-', '_')}_share", rules.values()))))
    counted = (
        f"as {law.term}, {law.place(run is not None and run.diagnosis.cpu_only)}".removesuffix(", ")
        if law.term
        else "without a term of its own"
    )
    return Explanation(
        name=name,
        kind="cause",
        title=cause.label[:1].upper() + cause.label[1:],
        mechanism=told(text.why, facts),
        formula=f"The time counts in class {cause.class_}, {counted}, in {FORMULA}.",
        yours=() if run is None else (_taken(name, run),),
        see_it=f"The row '{cause.label}' of the table of causes: analyze --details lists every one.",
        do=_about(about, rules, run),
        wrong_if="" if cause.observed else "The trace does not show what the device waits for here.",
        related=about[:_RELATED] or (f"{cause.class_}-bound",),
    )


def _taken(cause: str, run: Run) -> str:
    ns, share = (sum(getattr(e, of) for e in run.diagnosis.ledger if e.cause == cause) for of in ("ns", "share"))
    of = basis(run.diagnosis)
    if not ns:
        return "No time of the step goes there."
    return f"{duration(ns / max(of.count, 1))} of each {duration(of.step_ns)} step ({in_a_sentence(share, 'share')})."


def _about(about: Iterable[str], rules: Mapping[str, Rule], run: Run | None) -> tuple[str, ...]:
    """The changes that rules about a cause call for: those that the run needs, else each in a few words."""
    if run is not None:
        found = [finding for rule in about if (finding := run.diagnosis.finding(rule)) is not None]
        return tuple(map(_change, found[:2])) or ("No rule about it fires in this run.",)
    words = [f"{told(rules[rule].action, constants())} ({rule})" for rule in about if rule in rules]
    return ("; ".join(words[:_RELATED]),) if words else ()


def _reading(fact: str, rules: Iterable[Rule]) -> list[str]:
    return [rule.id for rule in rules if fact in rule.facts]


# A fact


def _of_fact(name: str, rules: Mapping[str, Rule], run: Run | None, facts: Facts) -> Explanation:
    metric, units = REGISTRY[name], known_units()
    reading = [rule for rule in rules.values() if name in rule.facts]
    thresholds = [
        f"{rule.id} is {severity} if {in_words(condition, units)}"
        for rule in reading[:3]
        for severity, condition in rule.conditions[:1]
    ]
    return Explanation(
        name=name,
        kind="fact",
        title=f"{fact_in_words(name)}, a {metric.unit}{f' of {metric.of}' if metric.of else ''}",
        mechanism=metric.doc,
        yours=() if run is None else (_measured(name, run),),
        see_it="" if metric.needs_gpu is False else "A trace with GPU activity shows it.",
        thresholds=tuple(thresholds),
        related=tuple(rule.id for rule in reading[:_RELATED]),
    )


def _spoken(name: str, run: Run) -> str:
    return spoken_fact(run.facts, name, bool(run.facts[name].of))


def _measured(name: str, run: Run) -> str:
    report = next((each for each in run.diagnosis.facts if each.name == name), None)
    if report is None or report.value is None:
        because = report.because if report else "the run was analysed without it"
        then = f"; to know it: {report.capture_next}" if report and report.capture_next else ""
        return f"Not known in this run: {because}{then}."
    return f"{name} is {_spoken(name, run)}."
