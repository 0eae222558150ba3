"""Whether the machine can run a patch: a GPU, and the tools that compile kernels."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from typing import Any


def gpu_is_there() -> bool:
    """Whether there is a GPU; asking does not initialise CUDA, since workers may still be forked."""
    torch: Any = sys.modules["torch"]
    return bool(torch.cuda.is_initialized() or torch.cuda.device_count() > 0)


def triton_missing() -> str:
    """The tool that Triton lacks here to build the launcher of a kernel; empty if nothing is missing."""
    if find_spec("triton") is None:
        return "triton is not installed"
    if not _program(os.environ.get("CC")) and not (not os.environ.get("CC") and _program("gcc", "clang")):
        return "Triton finds no C compiler: install gcc, or set CC"
    scheme = sysconfig.get_default_scheme() if hasattr(sysconfig, "get_default_scheme") else None
    if scheme == "posix_local":  # of Debian, whose headers lie elsewhere: as Triton has it
        scheme = "posix_prefix"
    paths = sysconfig.get_paths(scheme) if scheme else sysconfig.get_paths()
    if not os.path.isfile(os.path.join(paths["include"], "Python.h")):
        return "Triton finds no Python.h of this interpreter: install python3-dev"
    return ""


def cpp_compiler_missing() -> str:
    """The tool that torch.compile lacks here for a CPU; empty if nothing is missing."""
    return "" if os.environ.get("CXX") or _program("c++", "g++", "clang++") else "there is no C++ compiler"


def _program(*names: str | None) -> bool:
    """Whether one of the commands, whose first word is a program, can be run."""
    return any(name and shutil.which(name.split()[0]) for name in names)
