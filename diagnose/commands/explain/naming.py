"""The meaning of a name that is typed: a word, a class, a rule, a cause or a fact, however it is spelled."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Literal

import click
import msgspec
from click.shell_completion import CompletionItem

from diagnose.attribution.causes import CAUSES
from diagnose.commands.explain.concept import cause_text, concepts
from diagnose.errors import WrongUsage
from diagnose.metrics import REGISTRY
from diagnose.rule import builtin_rules

Kind = Literal["word", "class", "rule", "cause", "fact"]
_LONGEST = 60  # letters of a name that are compared
_JOINING = frozenset({"a", "against", "an", "and", "is", "of", "or", "the", "versus", "vs", "what"})


class Subject(msgspec.Struct, frozen=True):
    """A thing that can be explained, by the one name that its owner gives it."""

    kind: Kind
    id: str

    def __str__(self) -> str:
        return f"{self.id} ({self.kind})"


def subject_named(text: str, rules: Iterable[str]) -> Subject:
    """The subject of a name in any spelling; `rules` are the names of the rules.

    Raises:
        WrongUsage: there is none; it has the three nearest of all kinds.
    """
    named = _subjects(tuple(rules))
    found = named.get(text.casefold()) or named.get(key(text))
    if found is None:
        near = ", ".join(map(str, _nearest(text, named)))
        do = f"did you mean {near}? `diagnose rules` and `diagnose metrics` list rules and facts"
        raise WrongUsage("nothing of that name is known", where=text[:_LONGEST], do=do)
    return found


def subjects(rules: Iterable[str]) -> list[Subject]:
    """Everything that can be explained."""
    return list(dict.fromkeys(_subjects(tuple(rules)).values()))


def completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that begin so, each with its kind, for a shell."""
    known = subjects(path.stem for path in sorted(builtin_rules().glob("*.toml")))
    return [CompletionItem(each.id, help=each.kind) for each in known if each.id.startswith(incomplete)]


def key(text: str) -> str:
    """The text without case, plurals, hyphens, spaces and words that join others."""
    words = re.findall(r"[a-z0-9]+", text.casefold().replace("isation", "ization"))
    telling = [word for word in words if word not in _JOINING] or words
    return "".join(word[:-1] if len(word) > 3 and word[-1] == "s" != word[-2] else word for word in telling)


def _nearest(text: str, named: Mapping[str, Subject], count: int = 3) -> list[Subject]:
    """The subjects whose names are spelled most alike, each once."""
    close = get_close_matches(key(text)[:_LONGEST], named, n=8 * count, cutoff=0.0)
    return list(dict.fromkeys(named[each] for each in close))[:count]


@cache
def _subjects(rules: tuple[str, ...]) -> dict[str, Subject]:
    """Subjects by their names as they stand, and by their keys; of two with one name the first counts."""
    named = list(_named(rules))
    found: dict[str, Subject] = {}
    for name, subject in (*((name.casefold(), each) for name, each in named), *((key(n), each) for n, each in named)):
        found.setdefault(name, subject)
    return found


def _named(rules: Iterable[str]) -> Iterator[tuple[str, Subject]]:
    known = {rule: Subject("rule", rule) for rule in rules}
    texts = {id_: Subject(concept.kind, id_) for id_, concept in concepts().items()}
    yield from (texts | known).items()
    yield from ((name, texts[id_]) for id_, concept in concepts().items() for name in concept.names)
    causes = {id_: known.get(id_, Subject("cause", id_)) for id_ in CAUSES if id_ in known or cause_text(id_)}
    yield from causes.items()
    yield from ((CAUSES[id_].label, subject) for id_, subject in causes.items())
    yield from ((name, Subject("fact", name)) for name in sorted(REGISTRY))
