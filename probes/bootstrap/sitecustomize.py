"""Arms the capture in the Python processes of a job, and runs the sitecustomize that this file hides.

Runs at the start of every Python process below `diagnose run`, whatever its version, so it imports next to nothing,
keeps to old syntax, and lets no error of its own out. torch is never imported here: the hooks go in after the job
itself has imported it.

It removes its folder from `sys.path` and itself from `sys.modules`: the job finds both as they are without us. The
folder stays in PYTHONPATH, for the processes that this one starts.
"""

import os
import sys
from _thread import get_ident
from time import perf_counter_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HERE = os.path.dirname(os.path.realpath(__file__))
_PROBES = os.path.dirname(_HERE)
_watched = ()  # type: tuple[str, ...]
_marks = ""


def _say(line: str) -> None:
    try:
        sys.stderr.write("diagnose: " + line + "\n")
    except Exception:
        return


def _mark(reached: str) -> None:
    """Leave a mark for the parent, which shows how far the job got."""
    try:
        if _marks:
            os.close(os.open(os.path.join(_marks, reached), os.O_CREAT | os.O_WRONLY, 0o666))
    except OSError:
        return


def _command_line() -> "list[str]":
    words = getattr(sys, "orig_argv", None)  # from Python 3.10 on
    if words is not None:
        return list(words)
    try:
        with open("/proc/self/cmdline") as file:
            return file.read().split("\0")
    except Exception:
        return []


def _serves_another_process(words: "list[str]") -> bool:
    """Whether this is a child of multiprocessing, its fork server or resource tracker, or a compile worker of torch."""
    return any(
        word == "--multiprocessing-fork"
        or word.startswith("from multiprocessing.")
        or "compile_worker" in word
        or word.startswith("joblib.externals.loky")
        for word in words
    )


class _Imports:
    """The time that the main thread takes to run installed packages, each with what it imports itself.

    Attributes:
        on: whether it is measured.
        ns: so far.
        began: called where it begins, as `ended` is where it ends.
    """

    def __init__(self) -> None:
        self.on = True
        self.ns = 0
        self.began = self.ended = None  # type: Any
        self._since = None  # type: int | None
        self._thread = get_ident()

    def so_far(self) -> "tuple[int, bool]":
        """Nanoseconds until now, and whether an import is under way."""
        since = self._since
        return self.ns + (perf_counter_ns() - since if since is not None else 0), since is not None

    def may_begin(self) -> bool:
        """Whether an import that begins now is measured: no other is under way."""
        return self.on and self._since is None and self._thread == get_ident()

    def run(self, execute: "Any", module: "Any") -> None:
        """Run the module, and measure that if it may begin."""
        if not self.may_begin():
            execute(module)
            return
        self._since = since = perf_counter_ns()
        try:
            if self.began is not None:
                self.began()
            execute(module)
        finally:
            self.ns += perf_counter_ns() - since
            self._since = None
            if self.ended is not None:
                self.ended()


class _AfterImport:
    """A finder that finds nothing itself: it makes the loader that others found call us after the module ran."""

    def __init__(self) -> None:
        self._asking = set()  # type: set[tuple[str, int]]
        self.imports = _Imports()

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """The spec that the other finders give for a watched module, or for one whose import is measured."""
        if name not in _watched and not self.imports.may_begin():
            return None

        asking = (name, get_ident())
        if asking in self._asking:  # another finder asks the whole list again
            return None
        self._asking.add(asking)
        try:
            spec = self._from_the_others(name, path, target)
        finally:
            self._asking.discard(asking)
        if spec is not None and (name in _watched or _is_installed(spec.loader)):
            _tell_after(spec.loader, name, self.imports)
        return spec

    def _from_the_others(self, name: str, path: "Any", target: "Any") -> "Any":
        """The spec from the finders after this one; those before it have been asked, and found nothing."""
        finders = list(sys.meta_path)
        places = [at for at, finder in enumerate(finders) if finder is self]
        for finder in finders[places[0] + 1 :] if places else ():
            find_spec = getattr(finder, "find_spec", None)
            if find_spec is not None:
                spec = find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


def _is_installed(loader: "Any") -> bool:
    """Whether this runs the text of an installed module, which is no code of the job's own."""
    path = getattr(loader, "path", None) if type(loader).__name__ == "SourceFileLoader" else None
    return type(path) is str and (
        os.sep + "site-packages" + os.sep in path or os.sep + "dist-packages" + os.sep in path
    )


def _tell_after(loader: "Any", name: str, imports: "_Imports") -> None:
    """Call `_after_import` when the module has run; the loader stays in place, so that the module looks as usual."""
    try:
        execute = loader.exec_module

        def exec_module(module: "Any") -> None:
            if getattr(module, "__name__", None) != name:
                execute(module)
                return
            loader.__dict__.pop("exec_module", None)
            imports.run(execute, module)
            if name in _watched:
                _after_import(name)

        loader.exec_module = exec_module
    except Exception:
        return


def _after_import(name: str) -> None:
    handled = sys.exc_info()[1]
    try:
        _mark(name)
        _attach_module().after_import(name)
    except BaseException as error:
        interrupt = _of_the_job(error, handled)
        if interrupt is not None:
            raise interrupt from interrupt.__cause__
        _say(" ".join(f"capture is off: {type(error).__name__}: {error}".split()))


def _of_the_job(error: BaseException, handled: "Any") -> "Any":
    """The exception that a signal handler of the job raised while the probe ran; None if the error is the probe's."""
    try:
        return _module("interrupts").of_the_job(error, handled)
    except Exception:
        return None if isinstance(error, Exception) else error


def _attach_module() -> "Any":
    return _module("attach")


def _module(name: str) -> "Any":
    """A module of this installation's probes; under another name if `diagnose` is absent or somebody else's here."""
    from importlib import import_module

    package = "diagnose.probes" if _diagnose_is_ours() else "_diagnose_probes"
    if package not in sys.modules and package == "_diagnose_probes":
        from importlib.util import module_from_spec, spec_from_file_location

        start = os.path.join(_PROBES, "__init__.py")
        spec = spec_from_file_location(package, start, submodule_search_locations=[_PROBES])
        if spec is None or spec.loader is None:
            raise ImportError("no probes in " + _PROBES)
        module = module_from_spec(spec)
        sys.modules[package] = module
        spec.loader.exec_module(module)
    return import_module(package + "." + name)


def _diagnose_is_ours() -> bool:
    """Whether `diagnose` is this installation, without importing it."""
    try:
        from importlib.util import find_spec

        spec = find_spec("diagnose")
        origin = spec.origin if spec is not None else None
        return origin is not None and os.path.realpath(os.path.join(os.path.dirname(origin), "probes")) == _PROBES
    except Exception:
        return False


def _alone(name: str) -> "Any":
    """A module of the probes that imports nothing; it is in no `sys.modules`."""
    from _frozen_importlib_external import SourceFileLoader

    module = type(sys)("_diagnose_" + name)
    SourceFileLoader(module.__name__, os.path.join(_PROBES, name + ".py")).exec_module(module)
    return module


def _arm() -> None:
    global _watched, _marks
    if sys.version_info < (3, 9) or any(type(finder).__name__ == "_AfterImport" for finder in sys.meta_path):
        return
    protocol = _alone("protocol")
    if protocol.CONFIG not in os.environ and protocol.PIPELINE not in os.environ:
        return
    _watched, _marks = tuple(_alone("frameworks").hooks(protocol.hooked())), os.environ.get(protocol.MARKS, "")
    words = _command_line()
    if _serves_another_process(words):
        if "--multiprocessing-fork" in words:
            _mark(protocol.FORKED_MARK)
        return
    _mark(protocol.PYTHON_MARK)
    sys.meta_path.insert(0, _AfterImport())
    for name in _watched:
        if name in sys.modules:  # a .pth file imports it
            _after_import(name)


def _without_our_folder() -> None:
    for entry in list(sys.path):
        if _is_ours(entry):
            sys.path.remove(entry)
            sys.path_importer_cache.pop(entry, None)


def _is_ours(entry: "Any") -> bool:
    try:
        return bool(entry) and os.path.realpath(entry) == _HERE
    except Exception:
        return False


def _run_the_hidden_one() -> None:
    """Run the `sitecustomize` that would run without ours; Python reports its errors, and that there is none."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
    module = module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


try:
    if __name__ == "sitecustomize":
        _without_our_folder()
    _arm()
except Exception as error:
    _say(f"capture is off: {type(error).__name__}: {error}")
if __name__ == "sitecustomize":
    _run_the_hidden_one()
