"""The library that serves the process's memory."""

from __future__ import annotations

import os
import re
from pathlib import Path

_OTHERS = re.compile(r"/lib(jemalloc|tcmalloc|mimalloc)[^/]*\.so")


def malloc_library(root: Path = Path("/")) -> str | None:
    """One that is loaded in place of the C library's, such as "jemalloc", else "glibc"; None for another C library.

    Args:
        root: the folder of /proc.
    """
    found = _OTHERS.search((root / "proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    if found:
        return found[1]
    return "glibc" if (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc") else None
