"""The sections of the document put together under their titles, the long ones behind the answer folded."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from diagnose.errors.defects import netted
from diagnose.report.markdown.draft import Draft, blocks
from diagnose.report.markdown.github import Writer
from diagnose.report.views.sections import LeftOut, spelled

FOLDED_FROM_CHARACTERS = 250

Body = str | tuple[str, ...]  # blocks, or items of a list that goes on with those of the next section


@dataclass(frozen=True)
class Chapter:
    """A section of the document under its title, or "" if it continues the section above.

    If it `folds`, it is collapsed when long.
    """

    title: str
    write: Callable[[Draft], Body]
    folds: bool = False


def put_together(draft: Draft, sections: Mapping[str, Chapter | LeftOut]) -> str:
    """The document: each title with all that is written until the next one."""
    chapters: list[tuple[Chapter, list[Body]]] = []
    for name, section in sections.items():
        if isinstance(section, LeftOut):
            continue
        if section.title or not chapters:
            chapters.append((section, []))
        chapters[-1][1].append(netted(spelled(name), partial(section.write, draft), draft.to.text))
    return blocks([_chapter(part, _text(bodies, draft.to)) for part, bodies in chapters]) + "\n"


def _text(bodies: Iterable[Body], to: Writer) -> str:
    parts: list[str] = []
    items: list[str] = []
    for body in (*bodies, ""):
        if isinstance(body, tuple):
            items += body
            continue
        parts += [to.items(items), body]
        items = []
    return blocks(parts)


def _chapter(part: Chapter, text: str) -> str:
    """The text under its title, or folded behind it."""
    if not part.title or not text:
        return text
    if part.folds and len(text) >= FOLDED_FROM_CHARACTERS:
        return blocks([f"<details>\n<summary><b>{part.title}</b></summary>", text, "</details>"])
    return blocks([f"### {part.title}", text])
