"""Writes rules.md, metrics.md, the kernel groups of writing-a-rule.md, the answers and the example of json.md, the
manual page, the schema of the record of a capture, and all output blocks.

With --check it writes nothing and fails where a page is stale.

An output block of a page (README.md, docs/) is the fenced block after `<!-- output of: COMMAND -->`, run at the root.
`<!-- output of: COMMAND; parts: verdict, next -->` keeps the parts that begin with these words at the left edge.
What stands between `<!-- threshold: NAME -->` and `<!-- -->` is the threshold of the verdict in percent.
"""

import contextlib
import re
import shlex
import sys
from functools import cache
from itertools import groupby
from pathlib import Path

from click.testing import CliRunner

from diagnose.cli import main as diagnose
from diagnose.commands.schema.command import answer_of, answering
from diagnose.judge import verdict
from diagnose.metrics import REGISTRY, units
from diagnose.metrics.kernel_groups.registry import GROUPS
from diagnose.patch.job_framework import in_both_words
from diagnose.rule import Rule, filled, load_rules

sys.path.insert(0, str(Path(__file__).parent))
from json_example import example
from man_page import man_page
from record_schema import record_schema

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
OUTPUT = re.compile(
    r"(?P<head><!-- output of: (?P<command>[^;\n]*?)(?:; parts: (?P<parts>[^\n]*?))? -->\n```\n)"
    r"(?P<text>.*?\n)??(?P<end>```)",
    re.DOTALL,
)
GROUPS_MARK = re.compile(r"(<!-- groups of kernels -->\n).*?(?=\n##|\Z)", re.DOTALL)
ANSWERS = re.compile(r"(<!-- answers -->\n).*?(?=\n## |\Z)", re.DOTALL)
PRINTED_OTHERWISE = {  # answers that no `--json` of the command of that name prints
    "armed": "`diagnose analyze RUN --json` of an armed run",
    "run": "`diagnose run --on-finding COMMAND`, a finding a line, to the command",
    "tune": "`diagnose tune`, as `tune.json` in its folder",
}
THRESHOLD = re.compile(r"(?P<head><!-- threshold: (?P<name>[A-Z_]+) -->)[^<]*(?P<end><!-- -->)")
EXAMPLE = re.compile(r"(<!-- example -->\n```json\n).*?^(```)", re.DOTALL | re.MULTILINE)
HEADER = "<!-- Written by docs/generate.py; change the rules or the metrics instead. -->"


def rules_page() -> str:
    """Every rule with its conditions, advice and exceptions, in the order of their classes."""
    rules = load_rules((), units())
    classes = sorted({rule.class_ for rule in rules})
    table = [f"| [{rule.id}](#{rule.id}) | {rule.class_} | {rule.maturity} | {cell(rule.title)} |" for rule in rules]
    parts = [HEADER, "# Rules", "| rule | class | maturity | title |\n|---|---|---|---|\n" + "\n".join(table)]
    for class_ in classes:
        parts.append(f"## Class {class_}")
        parts.extend(rule_section(rule) for rule in rules if rule.class_ == class_)
    return "\n\n".join(parts) + "\n"


def rule_section(rule: Rule) -> str:
    """One rule."""
    lines = [f"### {rule.id}", "", f"{rule.title}. Class {rule.class_}, {rule.maturity}.", "", *mechanism(rule)]
    lines += [f"- needs: {', '.join(rule.needs)}"] if rule.needs else []
    lines += [f"- {severity}: `{condition.text}`" for severity, condition in rule.conditions]
    lines += [
        "",
        named(rule.says),
        "",
        f"**Do:** {in_short(rule.action)}{named(rule.do)}",
        *advice_lines(rule),
        "",
        f"**Unless:** {named(rule.unless)}",
    ]
    if rule.instead is not None:
        lines += ["", f"**Where the job refuses that:** {in_short(rule.instead.action)}{named(rule.instead.do)}"]
    for precondition in rule.not_when:
        condition = f"`{precondition.holds.text}`" if precondition.holds else "always"
        lines += ["", f"**Not when** {condition}: {named(precondition.because)}"]
    for withheld in rule.patch.not_when if rule.patch else ():
        if withheld.holds:
            lines += ["", f"**No patch when** `{withheld.holds.text}`: {named(withheld.because)}"]
    if rule.lines:
        lines += ["", f"Names {rule.lines.told}."]
    if rule.numerics:
        lines += ["", "The change alters the numbers training computes: compare the loss."]
    if rule.see:
        lines += ["", "See: " + ", ".join(f"<{link}>" for link in rule.see)]
    return "\n".join(lines)


def mechanism(rule: Rule) -> list[str]:
    """Why the fault costs time, and what of the iron law its remedy moves."""
    told = rule.mechanism
    if told is None:
        return []
    moves = "" if told.term == "none" else f" The remedy moves `{told.term}`; its axis is {told.axis}."
    source = f"<{told.source}>" if told.source.startswith("https://") else told.source
    return [f"**Why:** {named(told.why)}{moves} Source: {source}", ""]


def advice_lines(rule: Rule) -> list[str]:
    """What to do in its place while a condition holds."""
    told = [
        f"- `{advice.holds.text}`: {in_short(advice.what)}{named(advice.because)}"
        for advice in rule.advice
        if advice.holds
    ]
    return ["", *told] if told else []


def in_short(action: str) -> str:
    """The words of a headline before the sentences that say more."""
    return f"*{named(action)}.* " if action else ""


def metrics_page() -> str:
    """Every metric with its unit, denominator and meaning."""
    rows = [
        f'| <a id="{name}"></a>`{name}` | {metric.unit} | {cell(metric.of)} | {cell(metric.doc)} |'
        for name, metric in sorted(REGISTRY.items())
    ]
    table = "| metric | unit | of | what it is |\n|---|---|---|---|\n" + "\n".join(rows)
    note = "A metric that cannot be measured is unknown, with the reason and what to capture; it is never zero instead."
    return "\n\n".join([HEADER, "# Metrics", note, table]) + "\n"


def with_outputs(page: Path) -> str:
    """A page with each output block as its command prints it now."""

    def printed(block: re.Match[str]) -> str:
        return f"{block['head']}{parts_of(output_of(block['command']), block['parts'])}\n{block['end']}"

    return with_thresholds(OUTPUT.sub(printed, page.read_text(encoding="utf-8")))


def with_thresholds(text: str) -> str:
    """A page with each threshold that it quotes as the verdict has it."""
    return THRESHOLD.sub(lambda mark: f"{mark['head']}{100 * getattr(verdict, mark['name']):.3g}{mark['end']}", text)


@cache
def output_of(command: str) -> str:
    """What `diagnose ...` prints on a pipe, 88 columns wide; paths are those from the repository's root."""
    program, *arguments = shlex.split(command)
    assert program == "diagnose", command
    with contextlib.chdir(HERE.parent):
        done = CliRunner(env={"COLUMNS": "88", "NO_COLOR": "1", "DIAGNOSE_LEDGER": "off"}).invoke(diagnose, arguments)
    assert done.exit_code == 0, f"{command}: {done.output}"
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").split("\n"))


def with_example(text: str) -> str:
    """The page of the JSON with its example as the program prints it now."""
    with contextlib.chdir(HERE.parent):
        fresh = example()
    return EXAMPLE.sub(lambda block: block[1] + fresh + block[2], text)


def with_answers(text: str) -> str:
    """The page of the JSON with every answer that has a schema, and what prints it."""
    rows = "".join(
        f"| `{name}` | {PRINTED_OTHERWISE.get(name, f'`diagnose {name} --json`')} "
        f"| `{answer_of(name).__name__}` | {answer_of(name).version()} |\n"
        for name in answering()
    )
    head = "| `--of` | written by | object | `schema_version` |\n|---|---|---|---|\n"
    return ANSWERS.sub(lambda mark: f"{mark[1]}\n{head}{rows}", text)


def with_groups(text: str) -> str:
    """The page with the groups of kernels that a `[whatif]` may name, and what each is."""
    rows = "".join(f"| `{name}` | {cell(GROUPS[name].__doc__ or '')} |\n" for name in sorted(GROUPS))
    return GROUPS_MARK.sub(lambda mark: f"{mark[1]}\n| group | kernels |\n|---|---|\n{rows}", text)


def parts_of(output: str, wanted: str | None) -> str:
    """The parts of an output that begin with one of the words; a part begins at each line that is not indented."""
    if wanted is None:
        return output
    words = tuple(wanted.split(", "))
    parts = re.split(r"^(?=\S)", output, flags=re.MULTILINE)
    missing = [word for word in words if not any(part.startswith(word) for part in parts)]
    assert not missing, f"no part begins with {missing}"
    kept = ["".join(run) for keep, run in groupby(parts, lambda part: part.startswith(words)) if keep]
    return "\n\n".join(run.rstrip("\n") for run in kept)


def named(template: str) -> str:
    """A sentence with each fact as a link to what it is, and each setting as different loops make it."""

    def linked(name: str, with_denominator: bool) -> str:
        return f"[`{name}`](metrics.md#{name})" + (f" of {REGISTRY[name].of}" if with_denominator else "")

    return filled(" ".join(template.split()), linked, in_both_words)


def cell(text: str) -> str:
    """Text on one line that cannot end a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the pages, or compare them with what would be written."""
    pages = {page: with_outputs(page) for page in (README, *sorted([*HERE.glob("*.md"), *HERE.glob("design/*.md")]))}
    pages |= {HERE / "rules.md": rules_page(), HERE / "metrics.md": metrics_page()}
    pages[HERE / "man" / "diagnose.1"] = man_page(diagnose)
    pages[HERE.parent / "diagnose" / "data" / "capture.schema.json"] = record_schema()
    pages[HERE / "json.md"] = with_answers(with_example(pages[HERE / "json.md"]))
    pages[HERE / "writing-a-rule.md"] = with_groups(pages[HERE / "writing-a-rule.md"])
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
