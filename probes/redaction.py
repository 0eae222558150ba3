"""The owner of what is a secret: whatever records a command, a variable or an error leaves out what this names.

A value is a secret by its name (an option, a variable, a key of a configuration), by its place (the user part or the
query of a URL, a header), or by its look (the prefixes that services give their tokens, a private key, a long random
word after "="). A name alone is none: `--tokenizer`, `--max-tokens 512` and `--key-dim` stay.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

LEFT_OUT = "[left out]"
"""Stands where a secret stood."""

_SECRET = re.compile(
    "secrets?|pass|password|passwd|passphrase|passcode|pwd|pw|credentials?|creds?|auth|authorization|bearer|signature|sig|jwt|pat|"
    "apikey|accesskey|secretkey|privatekey|authtoken|accesstoken"
)
_NOT_A_KEY = re.compile(  # what stands before "key" in names of columns and of dictionaries
    "text|label|image|audio|video|sort|primary|foreign|data|dict|dataset|inputs?|output|prompt|response|target|answer|"
    "question|caption|column|field|feature|group|cache|json|state|batch|sample|split|metric|monitor|loss|index|hash|"
    "partition|shard|id|name|query|attention|attn|kv|chosen|rejected|messages|source|src"
)
_NOT_A_TOKEN = re.compile(  # what stands before "token" in names of a vocabulary's entries and of counts
    "eos|bos|pad|unk|cls|sep|mask|image|video|audio|special|start|end|stop|begin|first|last|next|new|per|each|class|"
    "decoder|separator|padding|im|vision|think|tool|max|min|num|add|trigger|placeholder|response|instance"
)
_OF_COUNTS = re.compile("token|key|sig|auth|pass")  # words that also name a number or a choice
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_DEFINED = re.compile(r"\A-[A-Z](?=[a-z])")  # -Dname=value
_CHOICE = re.compile(
    r"(?:true|false|yes|no|on|off|none|null|auto|\d{1,6}|\$\w+|\$\{\w+\}|\[left out\])\Z", re.IGNORECASE
)

_QUOTED = r"\[left out\]|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\\"[^\"]*\\\""
_NAMED = re.compile(
    rf"(?<![\w.$-])(?P<name>[\w.$-]+)(?P<between>\\?[\"']?(?:\s*[=:](?!//)\s*|\+=))(?P<value>{_QUOTED}|[^\s\"'&,;}})]+)"
)
_OPTION = re.compile(rf"(?<![\w-])(?P<name>--?[A-Za-z][\w.-]*)(?P<between>\s+)(?P<value>{_QUOTED}|[^\s\"'-][^\s\"']*)")
_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_USER = re.compile(r"(?<=://)[^/\s@\"':]*:[^/\s@\"']*(?=@)|(?<=http://)[^/\s@\"']+(?=@)|(?<=https://)[^/\s@\"']+(?=@)")
_HEADER = re.compile(r"(?P<before>\b(?:Bearer|Basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{6,})")
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{8,}|api_org_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|"
    r"[srp]k[-_](?=[a-z_-]{0,99}[\dA-Z])[\w-]{12,}|A(?:KIA|SIA)[0-9A-Z]{12,}|xox[a-z]-[\w-]{6,}|eyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?|"
    r"AIza[\w-]{20,}|ya29\.[\w-]{8,}|npm_\w{20,}|pypi-[\w-]{16,}|nvapi-[\w-]{12,}|dop_v1_\w{16,}|dckr_pat_[\w-]{12,}|"
    r"wandb_v\d_\w{16,}|SG\.[\w-]{10,}\.[\w-]{10,}|gsk_\w{16,}|r8_\w{16,}|\d{8,10}:AA[\w-]{20,}|"
    r"hooks\.slack\.com/services/\S+|discord(?:app)?\.com/api/webhooks/\S+"
    r")"
)
_AFTER_EQUALS = re.compile(
    r"(?P<name>(?<![\w.-])[\w.-]+)(?P<between>=)(?P<value>[A-Za-z0-9+/_=-]{24,})(?![A-Za-z0-9+/_=.-])"
)
_OF_A_STATE = re.compile("revision|commit|sha|hash|checksum|digest|md5|id|uuid|version|ref|rev|etag")
_RUN = re.compile(r"[A-Za-z0-9+]{24,}")
_SHELLS = re.compile(r"-[a-z]*c\Z")  # what follows is a text of commands: bash -lc, python -c
_LEAST_BITS = 3.2  # of a character: hexadecimal digits at random have 4, words have fewer by their repetitions


def words_without_secrets(words: Sequence[str]) -> list[str]:
    """The words of a command, each secret in them replaced."""
    kept: list[str] = []
    for before, word in zip(("", *words), words):  # noqa: B905 - Python 3.9
        option = before if before.startswith("-") and "=" not in before else ""
        if option and not _is_option(word) and _is_secret(option, word):
            kept.append(LEFT_OUT)
        else:
            kept.append(without_secrets(word) if _SHELLS.match(option) else _word(word))
    return kept


def without_secrets(text: str) -> str:
    """The text, each secret in it replaced."""
    text = _SHAPES.sub(LEFT_OUT, _USER.sub(LEFT_OUT, _BLOCK.sub(LEFT_OUT, text)))
    text = _HEADER.sub(lambda found: found["before"] + LEFT_OUT, text)
    for pattern in (_NAMED, _OPTION):
        text = _without_named(text, pattern)
    return _AFTER_EQUALS.sub(_if_random, text)


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is a secret whatever it looks like."""
    parts = [part.lower() for part in _PARTS.findall(_DEFINED.sub("", name))]
    while len(parts) > 1 and parts[-1].isdecimal():
        parts.pop()
    if not parts:
        return False
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last == "key":
        return not _NOT_A_KEY.fullmatch(before)
    if last == "token":
        return not _NOT_A_TOKEN.fullmatch(before)
    return _SECRET.fullmatch(last) is not None


def _word(word: str) -> str:
    """One word of a command: `--name=value` and `NAME=value` as a whole, anything else as text."""
    name, equals, value = word.partition("=")
    if equals and value and re.fullmatch(r"[+~]{0,2}-{0,2}[\w./@-]+", name) and _is_secret(name, value):
        return f"{name}={LEFT_OUT}"
    return without_secrets(word)


def _is_option(word: str) -> bool:
    return re.match(r"--?[A-Za-z][\w-]*(?:=|\Z)", word) is not None


def _is_secret(name: str, value: str) -> bool:
    """Whether the value of this name is one; a number or a choice is none if such a name may have it."""
    if not is_secret_name(name):
        return False
    last = _PARTS.findall(name)[-1].lower()  # as `is_secret_name` has it, or a number
    return not (_CHOICE.match(value) and (_OF_COUNTS.fullmatch(last) or not value.isdecimal()))


def _without_named(text: str, pattern: re.Pattern[str]) -> str:
    """The text without values that their names show as secrets; a value may hold names of its own."""
    kept, at = "", 0
    while found := pattern.search(text, at):
        value = found["value"]
        quote = re.match(r"\\?[\"']", value)
        mark = quote[0] if quote and value.endswith(quote[0]) else ""
        inside = value[len(mark) : len(value) - len(mark)] if mark else value
        if inside and _is_secret(found["name"], inside):
            kept, at = f"{kept}{text[at : found.start('value')]}{mark}{LEFT_OUT}{mark}", found.end()
        else:
            kept, at = kept + text[at : found.start("value")], found.start("value")
    return kept + text[at:]


def _if_random(found: re.Match[str]) -> str:
    last = (_PARTS.findall(found["name"]) or [""])[-1].lower()
    if _OF_A_STATE.fullmatch(last) or not any(map(_is_random, _RUN.findall(found["value"]))):
        return found[0]
    return f"{found['name']}={LEFT_OUT}"


def _is_random(word: str) -> bool:
    """Whether a long word holds letters and digits in an order that no words have."""
    digits, letters = sum(map(str.isdigit, word)), sum(map(str.isalpha, word))
    if not digits or not letters:
        return False
    changes = sum(a.isdigit() != b.isdigit() for a, b in zip(word, word[1:]))  # noqa: B905, RUF007 - Python 3.9
    bits = -sum(count / len(word) * math.log2(count / len(word)) for count in Counter(word).values())
    return bits >= _LEAST_BITS and changes >= len(word) // 8
