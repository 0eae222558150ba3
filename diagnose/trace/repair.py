"""Text that is almost JSON, made JSON: the ways in which exporters are known to break it."""

import re

_INVALID_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_COMMA_DECIMAL = re.compile(r"(:\s*-?\d+),(\d+)(?=\s*[,}\]])")
_NOT_FINITE = re.compile(r"([:\[,]\s*)(?:[-+]?(?:nan|inf(?:inity)?)|N/A)(?=\s*[,}\]])", re.IGNORECASE)
_NAME = re.compile(r'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|dur|id|args|bp|s)"\s*:)', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|\ufffd")


def repaired(piece: bytes) -> tuple[str, list[str]]:
    """The text with every known damage undone, and the kinds of damage that lost something.

    Backslashes of Windows paths and decimal commas are restored exactly and are not reported.
    """
    text = piece.decode("utf-8", "replace")
    lossy = []
    if _CONTROL.search(text):
        text = _CONTROL.sub("?", text)
        lossy.append("control-characters")
    text = _INVALID_ESCAPE.sub(r"\\\\", text)
    text = _COMMA_DECIMAL.sub(r"\1.\2", text)
    text, not_finite = _NOT_FINITE.subn(r"\1null", text)
    if not_finite:
        lossy.append("non-finite-number")
    text, requoted = _requote(text)
    if requoted:
        lossy.append("unescaped-quote")
    return text, lossy


def _requote(text: str) -> tuple[str, bool]:
    match = _NAME.search(text)
    if match is None:
        return text, False
    inner = re.sub(r'(?<!\\)"', r"\"", match[2])
    return text[: match.start(2)] + inner + text[match.end(2) :], inner != match[2]
