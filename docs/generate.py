"""Writes docs/rules.md, docs/metrics.md and the output blocks of README.md; --check fails when they are stale.

An output block of the README is the fenced block after `<!-- output of: COMMAND -->`, run in the repository.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from diagnose.metrics import REGISTRY
from diagnose.rule import PLACEHOLDER, Rule, load_rules

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
OUTPUT = re.compile(r"(<!-- output of: (?P<command>.*?) -->\n```\n)(?:.*?\n)??(```)", re.DOTALL)
HEADER = "<!-- Written by docs/generate.py; change the rules or the metrics instead. -->"


def rules_page() -> str:
    """Every rule with its conditions, advice and exceptions, in the order of their classes."""
    rules = load_rules((), {name: metric.unit for name, metric in REGISTRY.items()})
    classes = sorted({rule.class_ for rule in rules})
    table = [f"| [{rule.id}](#{rule.id}) | {rule.class_} | {rule.maturity} | {cell(rule.title)} |" for rule in rules]
    parts = [HEADER, "# Rules", "| rule | class | maturity | title |\n|---|---|---|---|\n" + "\n".join(table)]
    for class_ in classes:
        parts.extend(rule_section(rule) for rule in rules if rule.class_ == class_)
    return "\n\n".join(parts) + "\n"


def rule_section(rule: Rule) -> str:
    """One rule."""
    lines = [f"## {rule.id}", "", f"{rule.title}. Class {rule.class_}, {rule.maturity}.", ""]
    lines += [f"- {severity}: `{condition.text}`" for severity, condition in rule.conditions]
    lines += ["", named(rule.says), "", f"**Do:** {named(rule.do)}", "", f"**Unless:** {named(rule.unless)}"]
    for precondition in rule.not_when:
        condition = f"`{precondition.holds.text}`" if precondition.holds else "always"
        lines += ["", f"**Not when** {condition}: {named(precondition.because)}"]
    if rule.numerics:
        lines += ["", "The change alters the numbers training computes: compare the loss."]
    if rule.see:
        lines += ["", "See: " + ", ".join(f"<{link}>" for link in rule.see)]
    return "\n".join(lines)


def metrics_page() -> str:
    """Every metric with its unit, denominator and meaning."""
    rows = [
        f"| `{name}` | {metric.unit} | {cell(metric.of)} | {cell(metric.doc)} |"
        for name, metric in sorted(REGISTRY.items())
    ]
    table = "| metric | unit | of | what it is |\n|---|---|---|---|\n" + "\n".join(rows)
    note = "A metric that cannot be measured is unknown, with the reason and what to capture; it is never zero instead."
    return "\n\n".join([HEADER, "# Metrics", note, table]) + "\n"


def readme() -> str:
    """README.md with each output block as its command prints it now, 88 columns wide."""
    text = README.read_text(encoding="utf-8")
    return OUTPUT.sub(lambda found: found[1] + output_of(found["command"]) + "\n" + found[3], text)


def output_of(command: str) -> str:
    """What `diagnose ...` prints on a pipe."""
    program, *arguments = shlex.split(command)
    assert program == "diagnose", command
    environment = os.environ | {"COLUMNS": "88", "NO_COLOR": "1"}
    run = [sys.executable, "-m", "diagnose", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=HERE.parent, env=environment)
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").split("\n"))


def named(template: str) -> str:
    """A sentence with each `{fact}` as code."""
    return PLACEHOLDER.sub(r"`\1`", " ".join(template.split()))


def cell(text: str) -> str:
    """Text on one line that cannot end a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the pages, or compare them with what would be written."""
    pages = {HERE / "rules.md": rules_page(), HERE / "metrics.md": metrics_page(), README: readme()}
    if "--check" not in sys.argv[1:]:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path.name for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if stale:
        print(f"stale: {', '.join(stale)}; run python docs/generate.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
