"""One rule as its author wrote it: its conditions, advice and examples."""

from rich.text import Text

from diagnose.metrics import REGISTRY
from diagnose.patch.job_framework import in_both_words
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.rule import Rule, filled


def print_rule(rule: Rule, page: Page) -> None:
    """Print everything that the file of the rule holds."""
    page.line(Text.assemble((rule.id, "bold"), (f"   {rule.class_}   {rule.maturity}", "dim")))
    page.hanging(plain(rule.title), 0)
    page.gap()
    if rule.needs:
        page.paragraph(", ".join(rule.needs), label="needs:")
    for severity, condition in rule.conditions:
        page.paragraph(plain(condition.text), label=f"{severity}:")
    page.paragraph(_named(rule.says), label="says:")
    if rule.action:
        page.paragraph(_named(rule.action), label="action:")
    page.paragraph(_named(rule.do), label="do:")
    for advice in rule.advice:
        if advice.holds is not None:
            action = f"{_named(advice.what)}. " if advice.what else ""
            page.paragraph(f"when {advice.holds.text}: {action}{_named(advice.because)}")
    if rule.instead is not None:
        page.paragraph(_named(rule.instead.do), label="refused:")
    page.paragraph(_named(rule.unless), label="unless:")
    for precondition in rule.not_when:
        condition_text = precondition.holds.text if precondition.holds else "always"
        page.paragraph(f"{plain(condition_text)}: {_named(precondition.because)}", label="not when:")
    for withheld in rule.patch.not_when if rule.patch else ():
        if withheld.holds is not None:
            page.paragraph(f"{plain(withheld.holds.text)}: {_named(withheld.because)}", label="no patch:")
    for name, assumption in rule.assumptions.items():
        page.paragraph(f"where {name} is unknown: {assumption}", label="assumes:")
    if rule.lines:
        page.paragraph(plain(rule.lines.told), label="names:")
    if rule.numerics:
        page.paragraph("the change alters the numbers training computes: compare the loss", label="numerics:")
    _facts(page, rule)
    for i, example in enumerate(rule.examples):
        page.paragraph(f"{plain(example.name)}: {example.expect}", label="" if i else "examples:")
    for i, link in enumerate(rule.see):
        page.paragraph(plain(link), label="" if i else "see:")


def _facts(page: Page, rule: Rule) -> None:
    for i, name in enumerate(sorted(rule.facts)):
        doc = plain(REGISTRY[name].doc)
        page.paragraph(Text.assemble((name, "bold"), f"  {doc}"), label="" if i else "facts:")


def _named(template: str) -> str:
    """A sentence of a rule with each fact shown by its name, and each setting as different loops spell it."""

    def called(name: str, with_denominator: bool) -> str:
        return f"{name} of {REGISTRY[name].of}" if with_denominator else name

    return filled(plain(template), called, in_both_words)
