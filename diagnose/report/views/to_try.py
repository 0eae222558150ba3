"""The command that tries the next change, as it is pasted into a shell: the job's own, with the change applied."""

import os
import re
import shlex
from itertools import pairwise

from diagnose.diagnosis import Diagnosis, Patch
from diagnose.errors import printable
from diagnose.patch import patches
from diagnose.probes.redaction import LEFT_OUT

_NAMED = re.compile(r"([A-Za-z][\w.-]*)\\?[\"']?\s*[=:]?\s*\\?[\"']?\Z")


def command_to_try(diagnosis: Diagnosis) -> str:
    """The command line that tries what comes next; "" if there is none, or if the run did not record its command.

    A change is applied to the unedited job, a better capture runs it again. A secret that the record leaves out stands
    as "${NAME:?}": the shell puts the variable's value there, and refuses the line if there is none.
    """
    if diagnosis.next.kind == "capture":
        return _run(diagnosis, "")
    return command_with(diagnosis, diagnosis.next.rule, diagnosis.next.patch)


def command_with(diagnosis: Diagnosis, rule: str, patch: Patch | None) -> str:
    """The command line that runs the job with the change of a rule; "" if no run can make it, or none was recorded."""
    folder = _folder(diagnosis)
    if patch is None or not rule or not folder or not patches.reachable(patch):
        return ""
    return _run(diagnosis, f"--apply {shlex.quote(folder)}#{rule} ")


def _run(diagnosis: Diagnosis, options: str) -> str:
    words = diagnosis.command
    if not words or any(printable(word) != word for word in (*words, options)):  # what is shown is what is pasted
        return ""
    quoted = [_quoted(word, before) for before, word in zip(("", *words), words, strict=False)]
    return f"diagnose run {options}-- {' '.join(quoted)}"


def _folder(diagnosis: Diagnosis) -> str:
    """The folder of the run, as a user types it from here; "" if its files lie in several, or not on this machine."""
    folders = {os.path.dirname(file) or "." for file in diagnosis.trace.files}
    if len(folders) != 1 or "://" in (folder := folders.pop()):
        return ""
    try:
        near = os.path.relpath(folder) if os.path.isabs(folder) else folder
    except OSError:  # the working folder is gone
        return folder
    return folder if near.startswith("..") else near


def _quoted(word: str, before: str) -> str:
    """The word for a shell, with a variable in each place where a secret was left out."""
    parts, told = word.split(LEFT_OUT), before if before.startswith("-") else ""
    if len(parts) == 1:
        return shlex.quote(word)
    made = _part(parts[0])
    for known, rest in pairwise(parts):
        named = _NAMED.search(known or told)
        made += f'"${{{_variable(named[1] if named else "")}:?}}"' + _part(rest)
        told = ""
    return made


def _part(text: str) -> str:
    return shlex.quote(text) if text else ""


def _variable(name: str) -> str:
    """The variable of a shell that is named after an option or a key: HF_TOKEN for --hf-token."""
    return re.sub(r"\W+", "_", name).strip("_").upper() or "SECRET"
