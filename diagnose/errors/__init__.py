"""The only error that users see: what failed, where, why, and what to do about it."""

import os

import click

UNUSABLE_INPUT = 3


class UserError(click.ClickException):
    """Input that cannot be used. Printed on stderr without a traceback; the command exits with 3.

    Args:
        what: what failed, in one clause.
        where: the file or option at fault.
        why: the reason, when it is known.
        do: what the user can do next.
    """

    exit_code = UNUSABLE_INPUT

    def __init__(self, what: str, *, where: object = None, why: str = "", do: str = "") -> None:
        self.what, self.where, self.why, self.do = what, where, why, do
        super().__init__(self._text())

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.what, None if self.where is None else str(self.where), self.why, self.do)

    def _text(self) -> str:
        first = self.what if self.where is None else f"{self.what}: {printable(str(self.where))}"
        lines = [first, f"  why: {self.why}" if self.why else "", f"  do:  {self.do}" if self.do else ""]
        return "\n".join(printable(line) for text in lines if text for line in text.split("\n"))


class WrongUsage(UserError):
    """The same of what the user typed, such as the value of an option: the command exits with 2."""

    exit_code = click.UsageError.exit_code


def _again(kind: type[UserError], what: str, where: str | None, why: str, do: str) -> UserError:
    return kind(what, where=where, why=why, do=do)


_passed_over: list[int] = []


def pass_over(error: Exception) -> None:
    """Notes that a file counts as not there because it could not be read, which may be otherwise the next time."""
    if isinstance(error, OSError) or isinstance(error.__cause__, OSError):
        _passed_over.append(1)


def passed_over() -> int:
    """Number of files that this process has counted as missing so far."""
    return len(_passed_over)


def to_install(extra: str) -> str:
    """The command that installs an extra of the project from a checkout, since no index has the package."""
    return f'pip install ".[{extra}]" in a checkout of diagnose'


def printable(text: str) -> str:
    """`text` with control characters escaped, so that a hostile name cannot drive the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown_path(path: object) -> str:
    """A path as text that UTF-8 holds: bytes of a name that is not UTF-8 as escapes."""
    return os.fsencode(str(path)).decode("utf-8", "backslashreplace")
