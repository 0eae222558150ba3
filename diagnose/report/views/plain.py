"""Names and sentences of anybody as one harmless line."""

from diagnose.errors import printable


def plain(text: object) -> str:
    """`text` on one line, with control characters escaped."""
    return printable(" ".join(str(text).split()))
