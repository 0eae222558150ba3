"""Text that is almost JSON, made JSON: the ways in which exporters are known to break it."""

import re

_STRING = r'"(?:[^"\\]|\\(?s:.)?)*(?:"|\Z)'  # matches at every quote, which keeps the search linear
_STRINGS = re.compile(_STRING)
_INVALID_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BACKSLASH = re.compile(r'\\["\\]|\\')
_COMMA_DECIMAL = re.compile(_STRING + r"|(:\s*-?\d+),(\d+)(?=\s*[,}\]])")
_NOT_FINITE = re.compile(
    _STRING + r"|([:\[,]\s*)(?:[-+]?(?:1\.#)?(?:s?nan|inf|ind)[\w.()]*|N/A)(?=\s*[,}\]])", re.IGNORECASE
)
_NAME = re.compile(r'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|dur|id|args|bp|s)"\s*:)', re.DOTALL)
_BARE_QUOTE = re.compile(r'(?<!\\)"')
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
    if _INVALID_ESCAPE.search(text):
        text = _STRINGS.sub(_doubled, text)
    text, requoted = _requote(text)
    if requoted:
        lossy.append("unescaped-quote")
    text = _COMMA_DECIMAL.sub(lambda m: f"{m[1]}.{m[2]}" if m[1] else m[0], text)
    not_finite = 0

    def null(match: re.Match[str]) -> str:
        nonlocal not_finite
        not_finite += match[1] is not None
        return match[0] if match[1] is None else f"{match[1]}null"

    text = _NOT_FINITE.sub(null, text)
    if not_finite:
        lossy.append("non-finite-number")
    return text, lossy


def _doubled(string: re.Match[str]) -> str:
    """A string with one invalid escape has none that is meant: its "\\t" is the start of a folder's name."""
    if not _INVALID_ESCAPE.search(string[0]):
        return string[0]
    return _BACKSLASH.sub(lambda m: m[0] if len(m[0]) == 2 else r"\\", string[0])


def _requote(text: str) -> tuple[str, bool]:
    """Escapes the quotes inside the event's name; the first "name" is the event's own unless `args` come before it."""
    match = _NAME.match(text, max(text.find('"name"'), 0))
    if match is None:
        return text, False
    inner = _BARE_QUOTE.sub(r"\"", match[2])
    return text[: match.start(2)] + inner + text[match.end(2) :], inner != match[2]
