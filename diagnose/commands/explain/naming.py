"""What a name that is typed means: a word, a class, a rule, a cause or a fact, however it is spelled."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import click
import msgspec
from click.shell_completion import CompletionItem

from diagnose.attribution.causes import CAUSES
from diagnose.commands.explain.concept import concepts
from diagnose.errors import WrongUsage
from diagnose.rule import builtin_rules

Kind = Literal["word", "class", "rule", "cause", "fact"]
_JOINING = frozenset({"a", "against", "an", "and", "is", "of", "or", "the", "versus", "vs", "what"})


class Subject(msgspec.Struct, frozen=True):
    """A thing that can be explained, by the one name that its owner gives it."""

    kind: Kind
    id: str

    def __str__(self) -> str:
        return f"{self.id} ({self.kind})"


def subject_named(text: str, rules_dirs: Sequence[Path] = ()) -> Subject:
    """The subject of a name in any spelling.

    Raises:
        WrongUsage: there is none; it has the three nearest of all kinds.
    """
    subjects = _by_key(rules_dirs)
    found = subjects.get(key(text))
    if found is None:
        near = ", ".join(map(str, nearest(text, subjects)))
        do = f"did you mean {near}? `diagnose rules` and `diagnose metrics` list rules and facts"
        raise WrongUsage("nothing of that name is known", where=text, do=do)
    return found


def nearest(text: str, subjects: Mapping[str, Subject], count: int = 3) -> list[Subject]:
    """The subjects whose names are spelled most alike, each once."""
    close = get_close_matches(key(text), subjects, n=4 * count, cutoff=0.0)
    return list(dict.fromkeys(subjects[each] for each in close))[:count]


def subjects() -> list[Subject]:
    """Everything that ships and can be explained."""
    return list(dict.fromkeys(_by_key(()).values()))


def completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that begin so, each with its kind, for a shell."""
    return [CompletionItem(each.id, help=each.kind) for each in subjects() if each.id.startswith(incomplete)]


def key(text: str) -> str:
    """The text without case, plurals, hyphens, spaces and words that join others."""
    words = re.findall(r"[a-z0-9]+", text.casefold().replace("isation", "ization"))
    telling = [word for word in words if word not in _JOINING] or words
    return "".join(word[:-1] if len(word) > 3 and word[-1] == "s" != word[-2] else word for word in telling)


def _by_key(rules_dirs: Sequence[Path]) -> dict[str, Subject]:
    found: dict[str, Subject] = {}
    for name, subject in _named(rules_dirs):
        found.setdefault(key(name), subject)
    return found


def _named(rules_dirs: Sequence[Path]) -> Iterator[tuple[str, Subject]]:
    """Each name with its subject; of two with one name the first counts."""
    from diagnose.metrics import REGISTRY

    rules = {path.stem: Subject("rule", path.stem) for folder in (builtin_rules(), *rules_dirs)
             for path in sorted(folder.glob("*.toml"))}  # fmt: skip
    alone = {id_: concept for id_, concept in concepts().items() if id_ not in rules}
    for id_, concept in alone.items():
        yield id_, Subject(concept.kind, id_)
    yield from rules.items()
    for id_, concept in alone.items():
        yield from ((name, Subject(concept.kind, id_)) for name in concept.names)
    yield from ((id_, Subject("cause", id_)) for id_ in CAUSES)
    yield from ((cause.label, Subject("cause", id_)) for id_, cause in CAUSES.items())
    yield from ((name, Subject("fact", name)) for name in sorted(REGISTRY))
