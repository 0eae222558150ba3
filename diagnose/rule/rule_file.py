"""The shape of a rule file: TOML with fixed keys, read strictly, every complaint naming file and key."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from diagnose.diagnosis import Axis, Doing, Quantity, Severity
from diagnose.diagnosis.terms import CauseClass, DoubtKind, Over, RestsOn
from diagnose.rule.condition import RuleError, did_you_mean

_LARGEST_BYTES = 1 << 20

RuleClass = Literal["data", "host", "memory", "compute", "communication", "capacity", "imbalance", "validity"]
Maturity = Literal["stable", "incubating", "sandbox"]
Target = Literal["training_arguments", "model_kwargs", "environment", "ddp", "dataloader"]
Need = Literal["training", "nvidia", "gpu", "cpu"]
Waits = Literal["sync", "copies"]
Effort = Literal["setting", "code", "cluster"]
Answer = Literal[Severity, "quiet", "unknown", "not_advised"]
Leaves = Literal["medium", "low", "none"]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Link = Annotated[str, msgspec.Meta(pattern="^https://")]


Factor = float | Text
Span = tuple[Factor, Factor]


class WhatIfTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The effect of the change on a step: `removes` (a share that disappears), or factors for the replay.

    A factor is given as [best, worst]; a text that starts with "=" is an expression over facts. `removes` is the best
    case and `removes_at_least` (nothing if absent) the worst case, of a step or `over` the run.
    """

    removes: Text | None = None
    removes_at_least: Text | None = None
    kernels: dict[str, Span] = {}
    fuses: tuple[str, ...] = ()
    host: dict[str, Span] = {}
    launches: Span | None = None
    communication: Span | None = None
    collectives: dict[str, Span] = {}
    hides: bool = False
    waits: Waits | None = None
    batch: Span | None = None
    over: Over = "step"
    beyond_transfers: bool = False
    warms: bool = False
    assumes: Text | None = None
    source: Text | None = None


class AdviceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Advice that replaces the rule's `do` if a condition holds; the first that holds counts.

    Its `action`, if it has one, replaces the rule's.
    """

    do: Text
    if_: Text = msgspec.field(name="if")
    action: Text | None = None


class NotWhenTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A precondition that turns the advice into its opposite."""

    because: Text
    if_: Text = msgspec.field(name="if")


class PatchTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The change as configuration; a text in `set` that starts with "=" is an expression over facts.

    If the `if` of one of `not_when` holds, the patch is withheld and becomes negative advice; the finding stays.
    """

    target: Target
    set: dict[str, Any]
    if_: Text | None = msgspec.field(default=None, name="if")
    not_when: tuple[NotWhenTable, ...] = ()


class RefusedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The alternative if the job refuses the change, or has it set already.

    Its effect on a step is its own `whatif`, the rule's if it `keeps_whatif`, or else not predicted. Its own `advice`
    replaces its `do` as a rule's does.
    """

    do: Text
    action: Text | None = None
    whatif: WhatIfTable | None = None
    keeps_whatif: bool = False
    advice: tuple[AdviceTable, ...] = ()


class MemoryTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The effect of the change on the sharding of the training state, if no setting of the patch says so.

    `zero` is the ZeRO stage: data-parallel ranks shard 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too;
    `replicas` is the number of copies that are each sharded separately. A text that starts with "=" is an expression
    over facts.
    """

    zero: Factor | None = None
    replicas: Factor | None = None


class LinesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lines of the user's code that a finding names: by what they do, what they call, or one rank's excess.

    With `phase`, those of the slow steps that come every so many steps. With `if`, they are named only if that holds.
    """

    doing: tuple[Doing, ...] = ()
    calls: tuple[Text, ...] = ()
    excess: bool = False
    phase: bool = False
    if_: Text | None = msgspec.field(default=None, name="if")


class DoubtTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The effect of the fault on the verdict if a condition holds; of several doubts the first that holds counts.

    `says` is a clause with the numbers. The verdict keeps the confidence that the doubt `leaves` at most, or is
    withheld, with `unclaimed` only if that class leads.
    """

    kind: DoubtKind
    says: Text
    if_: Text = msgspec.field(name="if")
    leaves: Leaves = "low"
    unclaimed: CauseClass | None = None


class NegativeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The remedy that would not help while the rule is quiet."""

    what: Text
    because: Text
    if_: Text | None = msgspec.field(default=None, name="if")


class MechanismTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reason why the fault costs time: how it works, and the quantity of the iron law that the remedy moves.

    A rule about the capture moves none.
    """

    why: Text
    source: Text
    term: Quantity
    axis: Axis


class ExampleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts and the answer they must give."""

    name: Text
    facts: dict[str, Any]
    expect: Answer


class RuleFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule as written. Conditions and templates are still text."""

    title: Text
    class_: RuleClass = msgspec.field(name="class")
    maturity: Maturity
    needs: tuple[Need, ...] = ()
    critical: Text | None = None
    warning: Text | None = None
    info: Text | None = None
    says: Text
    action: Text | None = None
    do: Text
    unless: Text
    see: tuple[Link, ...]
    numerics: bool = False
    evidence: RestsOn = "time"
    effort: Effort = "setting"
    excludes: tuple[Text, ...] = ()
    whatif: WhatIfTable | None = None
    patch: PatchTable | None = None
    refused: RefusedTable | None = None
    memory: MemoryTable | None = None
    advice: tuple[AdviceTable, ...] = ()
    not_when: tuple[NotWhenTable, ...] = ()
    lines: LinesTable | None = None
    doubt: tuple[DoubtTable, ...] = ()
    negative: NegativeTable | None = None
    mechanism: MechanismTable | None = None
    example: tuple[ExampleTable, ...]


TABLES: dict[str, type[msgspec.Struct]] = {
    "": RuleFile,
    "whatif": WhatIfTable,
    "patch": PatchTable,
    "refused": RefusedTable,
    "memory": MemoryTable,
    "advice": AdviceTable,
    "not_when": NotWhenTable,
    "lines": LinesTable,
    "doubt": DoubtTable,
    "negative": NegativeTable,
    "mechanism": MechanismTable,
    "example": ExampleTable,
}


def text_of(path: Path) -> str:
    """The text of one rule file."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise RuleError("no rule file is this large", where=path)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError("the rule file cannot be read", where=path, why=str(error)) from None


def parsed(text: str, path: Path) -> RuleFile:
    """Parse the text of the rule file at `path`; raise RuleError with what is wrong and where."""
    import tomllib  # rules that are kept need no parser

    try:
        raw = tomllib.loads(text)
    except RecursionError:
        raise RuleError("the rule file is nested too deep", where=path) from None
    except tomllib.TOMLDecodeError as error:
        at_line = re.search(r"line (\d+)", str(error))
        line = at_line[1] if at_line else str(text.count("\n") + 1)
        raise RuleError("the rule file is not valid TOML", where=f"{path}, line {line}", why=str(error)) from None
    try:
        return msgspec.convert(raw, RuleFile)
    except msgspec.ValidationError as error:
        raise _explained(str(error), path) from None


def _explained(message: str, path: Path) -> RuleError:
    """msgspec's complaint in the words of the file."""
    what, _, place = message.partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    parts = re.findall(r"[^.\[\]]+", key)
    table = TABLES.get(parts[0], RuleFile) if parts else RuleFile
    named = re.search(r"field `([^`]*)`", what)
    where = f"{path}: {'.'.join(part for part in (key, named[1] if named else '') if part)}"
    if named and "unknown" in what:
        keys = [field.encode_name for field in msgspec.structs.fields(table)]
        return RuleError("unknown key", where=where, do=did_you_mean(named[1], keys) or f"keys here: {', '.join(keys)}")
    if named:
        return RuleError("missing key", where=where, do=f"add {named[1]} = ...")
    if "Invalid enum value" in what:
        value, choices = what.split("'")[1], _choices(table, [part for part in parts if not part.isdigit()][-1])
        hint = did_you_mean(value, choices) or f"one of {', '.join(choices)}"
        return RuleError(f"'{value}' is not possible here", where=where, do=hint)
    if "regex" in what:
        return RuleError("a link starts with https://", where=where)
    return RuleError(_in_toml_words(what), where=where)


def _choices(table: type[msgspec.Struct], key: str) -> list[str]:
    field = next(field for field in msgspec.structs.fields(table) if field.encode_name == key)
    one, *others = get_args(field.type)
    return [str(choice) for choice in (get_args(one) if others == [...] else (one, *others))]


def _in_toml_words(what: str) -> str:
    if "length" in what:
        return "the text is empty"
    words = {"str": "text", "bool": "true or false", "object": "a table", "array": "a list", "int": "a number"}
    return re.sub(r"`(\w+)( \| null)?`", lambda type_: words.get(type_[1], type_[1]), what).lower()
