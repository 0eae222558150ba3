"""The kinds of input from outside, and how a mutated one of each is built."""

import json
import random
import tomllib
from collections.abc import Callable
from functools import cache
from typing import Any

from . import answers, beside, environments, recorders, seeds, told, traces, written
from .case import Case
from .damage import damaged, packed, suffixes
from .entries import entry_of, spoilt
from .tree import mutate, mutated
from .values import odd, toml
from .written import at_times_damaged, csv_bytes, form, json_bytes, log_bytes

Builder = Callable[[random.Random], Case]
_OPTIONS: tuple[tuple[str, ...], ...] = (
    *[()] * 32,
    *[("--gpu-hour-price", "2", "--network-gbs", "50")] * 3,
    *[("--tokens-per-step", "4096", "--params", "1B")] * 3,
    ("--flops-per-step", "1e14", "--peak-tflops", "989", "--hbm-gbs", "3350"),
    ("--step", "11"),
    ("--low-memory", "8G"),  # of this process, which holds much more than a try
    ("--jobs", "2"),
)
_ODD_NAMES = (
    "\udcff.json", "-rf.json", "a\nb.json", "[bold]x.json", "\x1b[2J.json", "rank-1.json", "rank99999999999.json",
)  # fmt: skip
_RULE_TEXTS = (
    "and", "or", "not", "(" * 400, ")", ">", "<=", "==", "+", "/ 0", "* 1e308", "has_gpu", "nosuchfact", "{", "}", "'",
    "1e999", "0.1", "is_compiled", "kernels_per_step", "[1]", "__import__", "lambda", "\\u0000", "** 9", "- ", "%",
)  # fmt: skip


def built(seeded: random.Random, *kinds: str) -> Case:
    """A case of one of the kinds, of any where none is named."""
    among = kinds or tuple(KINDS)
    chosen = seeded.choices(among, [KINDS[kind][0] for kind in among])[0] if len(among) > 1 else among[0]
    return KINDS[chosen][1](seeded)


def shown(seeded: random.Random, path: str) -> tuple[str, ...]:
    """The command that analyses `path`: its JSON, now and then every other form of the report too."""
    pick = seeded.random()
    if pick < 0.06:
        pages = ("--html", "@out/page.html", "--markdown", "@out/page.md", "--tables", "@out/tables")
        return ("analyze", path, "--json", *pages, "--annotate", "@out/annotated.json")
    if pick < 0.14:
        return ("analyze", path, "--details", "--kernels", "5")
    return ("analyze", path, "--json", *seeded.choice(_OPTIONS))


def _trace(seeded: random.Random) -> Case:
    document = seeds.one_rank(seeded)
    for _ in range(seeded.randint(1, 4)):
        traces.damage(seeded, document)
    name = "trace" + seeded.choice([".json", ".json", ".json.gz"])
    name = seeded.choice(_ODD_NAMES) if seeded.random() < 0.03 else name
    return Case("trace", shown(seeded, f"@{name}"), {name: packed(seeds.texted(seeded, document), name)})


def _bytes(seeded: random.Random) -> Case:
    name = "trace" + seeded.choice(suffixes())
    text = seeds.texted(seeded, seeds.one_rank(seeded))
    content = packed(damaged(seeded, text), name) if seeded.random() < 0.3 else damaged(seeded, packed(text, name))
    return Case("bytes", shown(seeded, f"@{name}"), {name: content})


def _job(seeded: random.Random) -> Case:
    documents = seeds.ranks(seeded)
    spoiled = seeded.choice(documents)
    for _ in range(seeded.randint(1, 4)):
        traces.damage(seeded, spoiled)
    files = {f"rank{rank}.json": seeds.texted(seeded, document) for rank, document in enumerate(documents)}
    if seeded.random() < 0.15:
        name = seeded.choice(list(files))
        files[name] = damaged(seeded, files[name])
    if seeded.random() < 0.5:
        for rank in range(len(documents)):
            files[f"capture-rank{rank}.json"] = json_bytes(beside.record(seeded, rank))
    if seeded.random() < 0.05:
        files["rank1.json"] = seeded.choice([b"[]", b"{}", b"", b"\x00" * 90, b"null", b'"x"'])
    if seeded.random() < 0.1:
        files["steps.csv"] = csv_bytes(beside.steps_table(seeded))
    rank = ("--rank", "0") if seeded.random() < 0.1 else ()
    return Case("job", (*shown(seeded, "@"), *rank), files)


def _record(seeded: random.Random) -> Case:
    documents = [seeds.one_rank(seeded)] if seeded.random() < 0.7 else seeds.built("FAULTY", "straggler", True)
    files = {f"rank{rank}.json": json_bytes(document) for rank, document in enumerate(documents)}
    for rank in range(len(documents)):
        files[f"capture-rank{rank}.json"] = written.spoilt(seeded, beside.record(seeded, rank), 4)
    if seeded.random() < 0.15:
        return Case("record", ("series", "@", *form(seeded)), files)
    return Case("record", shown(seeded, "@"), files)


def _rule(seeded: random.Random) -> Case:
    path = seeded.choice(beside.rule_files())
    text = path.read_text(encoding="utf-8")
    if seeded.random() < 0.75:
        found = tomllib.loads(text)
        for _ in range(seeded.choice([1, 1, 1, 2, 3])):
            mutate(seeded, found) if seeded.random() < 0.6 else _reworded(seeded, found)
        content = toml(found).encode("utf-8", "replace")
    else:
        content = damaged(seeded, text.encode())
    name = seeded.choice([path.name] * 8 + ["own-rule.toml", "X Y.toml"])
    command = seeded.choice([("analyze", "@trace.json", "--json"), ("rules",), ("explain", path.stem)])
    trace = {"trace.json": _small()} if command[0] == "analyze" else {}
    return Case("rule", (*command, "--rules", "@rules"), {f"rules/{name}": content, **trace})


def _reworded(seeded: random.Random, rule: dict[str, Any]) -> None:
    """Words of a condition or a sentence cut, swapped, repeated or replaced."""
    keys = [key for key, value in rule.items() if isinstance(value, str)]
    tables = [
        t for value in rule.values() for t in (value if isinstance(value, list) else [value]) if isinstance(t, dict)
    ]
    holder = seeded.choice([rule, *tables])
    keys = [key for key, value in holder.items() if isinstance(value, str)]
    if keys:
        key = seeded.choice(keys)
        words = holder[key].split() or [""]
        at = seeded.randrange(len(words))
        words[at : at + seeded.randint(0, 2)] = [seeded.choice(_RULE_TEXTS)] * seeded.choice([0, 1, 1, 300])
        holder[key] = " ".join(words)


@cache
def _small() -> bytes:
    """A sound trace, for what is mutated beside it."""
    return json_bytes(seeds.drawn(random.Random(1)))


def _patch(seeded: random.Random) -> Case:
    given = beside.patch(seeded)
    if isinstance(given, dict) and "set" in given and seeded.random() < 0.6:
        mutate(seeded, given["set"])
    else:
        given = mutated(seeded, given, 2)
    content = at_times_damaged(seeded, json_bytes(given))
    rule = seeded.choice(["", "", "#launch-bound", "#host", "#", "#a#b"])
    return Case("patch", (f"@patch.json{rule}",), {"patch.json": content}, "patch")


def _settings(seeded: random.Random) -> Case:
    table = mutated(seeded, beside.settings(seeded))
    own = seeded.random() < 0.7
    if not own:
        table = {"tool": seeded.choice([{"diagnose": table}, {"other": table}, odd(seeded)]), "project": odd(seeded)}
    text = toml(table if isinstance(table, dict) else {}).encode("utf-8", "replace")
    text = at_times_damaged(seeded, text)
    commands = ("run", "--no-report", "--", "true"), ("series", "steps.csv"), ("analyze", "trace.json")
    command = seeded.choices(commands, (6, 14, 80))[0]
    files = {
        "diagnose.toml" if own else "pyproject.toml": text,
        "trace.json": _small(),
        "steps.csv": b"step,step_time_ms\n1,5\n2,5\n",
    }
    return Case("settings", command, files, "inside")


def _series(seeded: random.Random) -> Case:
    name = seeded.choice(
        ["steps.csv", "steps.tsv", "steps.jsonl", "trainer_state.json", "capture-rank0.json", "train.log"]
    )
    content = at_times_damaged(seeded, log_bytes(seeded, name))
    unit = ("--unit", seeded.choice(["s", "ms", "us", "ns"])) if seeded.random() < 0.2 else ()
    target = f"@{name}" if seeded.random() < 0.8 else "@"
    return Case("series", ("series", target, *form(seeded), *unit), {name: content})


def _cached(seeded: random.Random) -> Case:
    document = seeds.one_rank(seeded)
    text = json.dumps(document).encode()
    files = {"trace.json": text, "entry.bin": spoilt(seeded, entry_of(text))}
    return Case("cache", ("analyze", "@trace.json", "--json"), files, "cached")


KINDS: dict[str, tuple[int, Builder]] = {  # kind: weight among the tries, builder
    "trace": (30, _trace),
    "bytes": (12, _bytes),
    "job": (20, _job),
    "record": (12, _record),
    "rule": (6, _rule),
    "patch": (5, _patch),
    "settings": (5, _settings),
    "series": (7, _series),
    "cache": (3, _cached),
    "hang": (5, recorders.hang),
    "memory": (5, recorders.memory),
    "armed": (4, recorders.armed),
    "compared": (4, answers.compared),
    "fleet": (3, answers.fleet),
    "baseline": (2, answers.baseline),
    "ledger": (3, answers.ledger),
    "planned": (5, answers.planned),
    "nsight": (5, recorders.nsight),
    "misspelt": (3, recorders.misspelt),
    "execution": (4, recorders.execution),
    "monitored": (4, told.monitored),
    "text log": (4, told.text_log),
    "pipeline": (4, told.pipeline),
    "tune": (4, told.tune),
    "agent": (5, told.agent),
    "names": (4, environments.names),
    "environment": (4, environments.environment),
}
