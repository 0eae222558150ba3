"""What `pyproject.toml` cannot say: the wheel's tag follows from what was compiled into it."""

import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

_LIMITED_API = "cp311"  # of the compiled modules: they run in this Python and in each later one


class _Wheel(bdist_wheel):
    """A wheel for each later Python too, and for every machine where a compiler was missing."""

    def finalize_options(self) -> None:
        if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # which has no limited API, and gets no compiled modules
            self.py_limited_api = _LIMITED_API
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        if any(Path(self.bdist_dir or ".").rglob("*.so")):
            return super().get_tag()
        return "py3", "none", "any"


setup(cmdclass={"bdist_wheel": _Wheel})
