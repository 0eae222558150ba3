"""The work of torch.compile: the code that it compiled, where it gave up, and what it compiled again.

Of torch's reasons only its own words are kept: a guard may hold a value of the job's.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..guard import quietly
from ..introspection import path_below, working_folder

MOST = 64  # compilations, the last ones: torch keeps no more
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>\w{1,100}?)_at_(?P<line>\d{1,7})\Z")
_WORDS = re.compile(r"[A-Za-z][\w .,'`()/=:-]{2,99}")
_KIND = re.compile(r"\w{1,60}\Z")
_AGAIN = (  # the part of a guard that shows what changed
    ("size mismatch", "sizes change"),
    ("stride mismatch", "strides change"),
    ("dtype mismatch", "types change"),
    ("device", "devices change"),
    ("requires_grad", "requires_grad changes"),
    ("rank mismatch", "the number of dimensions changes"),
    ("grad_mode", "the gradient mode changes"),
    ("GLOBAL_STATE", "a global setting of torch changes"),
    ("len(", "the length of a list changes"),
    ("check_obj_id", "another object comes"),
    ("check_type_id", "an object of another type comes"),
    ("==", "a number or a text changes"),
    ("<", "a number changes"),
    (">", "a number changes"),
)


def compilations() -> dict[str, object] | None:
    """The compilations of this process, the last ones; None if nothing was compiled."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return None
    kept = [vars(each) for each in utils.get_compilation_metrics()]
    return summary_of(kept, time.time()) if kept else None


def summary_of(kept: Sequence[Mapping[str, Any]], now_s: float) -> dict[str, object]:
    """The compilations in short, the time since the first began, and how often torch compiles the same code at most.

    Backward passes that are compiled on their own count for the forward pass that they belong to.
    """
    began = [began for each in kept if isinstance(began := each.get("start_time"), int | float)]
    again = {each.get("compile_id") for each in kept if each.get("recompile_reason") is not None}
    took = [_seconds(each) for each in kept if each.get("compile_id") in again]
    known = [seconds for seconds in took if seconds is not None]
    return {
        "compiled": [row for row in map(row_of, kept[-MOST:]) if row is not None],
        "again_ns": int(1e9 * sum(known)) if len(known) == len(took) else None,
        "since_first_ns": int(1e9 * max(now_s - min(began), 0)) if began else None,
        "limit": quietly(recompile_limit),
    }


def _seconds(metrics: Mapping[str, Any]) -> float | None:
    """The seconds that the compilation took; None if this torch does not say."""
    microseconds, seconds = metrics.get("duration_us"), metrics.get("entire_frame_compile_time_s")
    if isinstance(microseconds, int | float):
        return microseconds / 1e6
    return float(seconds) if isinstance(seconds, int | float) else None


def recompile_limit() -> int | None:
    """The number of versions of the same code that torch compiles before it runs the code uncompiled."""
    config: Any = sys.modules["torch._dynamo.config"]
    limit = getattr(config, "recompile_limit", None) or getattr(config, "cache_size_limit", None)
    return int(limit) if limit else None


def row_of(metrics: Mapping[str, Any], here: str | None = None) -> dict[str, object] | None:
    """One compilation in short, from torch's own account of it; None if it belongs to no function.

    `broken_at` is the line at which the code before this one gave up, `again` the reason that it compiled again,
    `failed` the kind of its error, `because` why graphs end inside it.
    """
    file, name, line = (metrics.get(f"co_{of}") for of in ("filename", "name", "firstlineno"))
    if not isinstance(file, str) or not isinstance(name, str) or metrics.get("is_forward") is False:
        return None
    resumed = _RESUMED.match(name)
    again, failed = metrics.get("recompile_reason"), metrics.get("fail_type")
    return {
        "file": path_below(file, working_folder() if here is None else here),
        "line": line if isinstance(line, int) else None,
        "function": resumed["function"] if resumed else name[:100],
        "broken_at": int(resumed["line"]) if resumed else None,
        "again": _what_changed(again) if isinstance(again, str) else None,
        "failed": failed if isinstance(failed, str) and _KIND.match(failed) else "an error" if failed else None,
        "failed_at": metrics.get("fail_user_frame_lineno") if failed else None,
        "because": _own_words(metrics.get("restart_reasons")),
    }


def _what_changed(reason: str) -> str:
    return next((said for part, said in _AGAIN if part in reason), "something else changes")


def _own_words(reasons: object) -> list[str]:
    """The first line of each reason, as far as it consists of torch's own words."""
    told = reasons if isinstance(reasons, list | tuple | set | frozenset) else ()
    first = (reason.strip().splitlines()[0] for reason in told if isinstance(reason, str) and reason.strip())
    found = map(_WORDS.match, first)
    return sorted({words[0].rstrip(" :,") for words in found if words})[:4]
