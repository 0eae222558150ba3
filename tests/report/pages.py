"""The HTML report as a test reads it: its tags with their attributes, and the text in each."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.report.html import About, page

SAMPLES = Path(__file__).parents[2] / "sample_traces"
VOID = {"meta", "br", "input", "link", "img", "hr"}


class Read(HTMLParser):
    """A page as tags with attributes, and the text in each; a tag that is closed wrongly fails the test."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len({name for name, _ in attrs}), (tag, attrs)
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, *tags: str) -> list[str]:
        return [text for tag, text in self.texts if tag in tags]

    @property
    def shown(self) -> str:
        """What a reader without JavaScript sees."""
        return " ".join(" ".join(text for tag, text in self.texts if tag not in ("style", "script", "title")).split())


def written(diagnosis: Diagnosis) -> str:
    return page(diagnosis, About("1.2.3", "diagnose analyze run/"))


@cache
def sample(name: str) -> Diagnosis:
    return analyze(SAMPLES / name)
