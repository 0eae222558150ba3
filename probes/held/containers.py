"""The containers of the job's own code that grow with its steps, by name, from the frames and modules of that code.

Only lengths are read, and of the containers that grow the last item; no line of the job's code runs.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from ..introspection import attributes, is_a, untouched
from ..stacks.folding import is_the_users, library_folders

MOST_SEEN = 1500  # objects in a look
MOST_INSIDE = 48  # items of a container that are looked into
DEEPEST = 3
MOST_TOLD = 6
MOST_TERMS = 512  # of a running sum
SUM = "running sum"
CACHE = _lru_cache_wrapper.__name__
LEAST_RATE = 0.02  # items in a step
ALIKE = 2.0  # times one rate may be the other, of two stretches
_LONGEST_NAME = 80
_CONTAINERS = (list, dict, set, deque)
_TAKES_LOCALS = frozenset(("locals", "vars", "dir", "exec", "eval", "_getframe", "currentframe", "stack", "f_locals"))
_SNAPSHOTS = sys.version_info < (3, 13)  # reading the locals of a frame keeps them, until they are cleared
_BARRED = (ModuleType, CodeType, FrameType, str, bytes, int, float, complex, bool, type(None))


class Seen(NamedTuple):
    """A container of the job's: the file and the function that know it, its name there, and itself."""

    where: str
    name: str
    held: Any


class GrowingContainers:
    """Compares the lengths of containers from one look to the next."""

    def __init__(self) -> None:
        self._libraries: tuple[str, ...] = ()
        self._lengths: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def look(self, step: int) -> list[dict[str, object]]:
        """The containers that have grown steadily since the last two looks, those with a tensor's graph first."""
        self._libraries = self._libraries or tuple(library_folders())
        lengths, grown = {}, []
        for seen in self._seen(sys._getframe(1)):
            key = seen.where, seen.name
            lengths[key] = [*self._lengths.get(key, ())[-2:], (step, _length(seen.held))]
            rate = _steady(lengths[key])
            if rate >= LEAST_RATE:
                item, size, graph = _of_items(seen.held)
                kind = SUM if graph and _is_sum(seen.held) else type(seen.held).__name__
                told = {"in": seen.where, "name": seen.name, "kind": kind, "per_step": round(rate, 3)}
                grown.append({**told, "length": lengths[key][-1][1], "item": item, "item_bytes": size, "graph": graph})
        self._lengths = lengths
        return sorted(grown, key=lambda one: (-one["graph"], -one["item_bytes"] * one["per_step"]))[:MOST_TOLD]

    def _seen(self, frame: FrameType | None) -> Iterator[Seen]:
        """The containers near the running frames, and near the modules, of the job's own code; the nearest first."""
        waiting = deque(self._roots(frame))
        ids: set[int] = set()
        while waiting and len(ids) < MOST_SEEN:
            where, name, thing, depth = waiting.popleft()
            if id(thing) in ids or is_a(thing, *_BARRED):
                continue
            ids.add(id(thing))
            if is_a(thing, *_CONTAINERS, _lru_cache_wrapper) or _is_sum(thing):
                yield Seen(where, name, thing)
            if depth < DEEPEST:
                waiting += ((where, inner[:_LONGEST_NAME], one, depth + 1) for inner, one in self._inside(name, thing))

    def _roots(self, frame: FrameType | None) -> Iterator[tuple[str, str, Any, int]]:
        modules = dict[int, tuple[str, Any]]()
        while frame is not None:
            code, space = frame.f_code, frame.f_globals
            if self._is_own(code.co_filename, str(dict.get(space, "__name__"))):
                file = code.co_filename.rpartition("/")[2]
                modules.setdefault(id(space), (file, space))
                for name, value in _locals(frame).items():
                    yield f"{file} {code.co_name}()", name, value, 0
            frame = frame.f_back
        for module in list(sys.modules.values()):
            space = attributes(module)
            if type(path := space.get("__file__")) is str and self._is_own(path, str(space.get("__name__"))):
                modules.setdefault(id(space), (path.rpartition("/")[2], space))
        for file, space in modules.values():
            for name, value in list(space.items()):
                if type(name) is str and not name.startswith("__"):
                    yield file, name, value, 0

    def _is_own(self, path: str, module: str) -> bool:
        return is_the_users(path, module, self._libraries)

    def _inside(self, name: str, thing: Any) -> list[tuple[str, Any]]:
        if is_a(thing, dict):
            if dict.__len__(thing) > MOST_INSIDE:
                return []
            return [(f"{name}[{key!r}]", one) for key, one in list(dict.items(thing)) if type(key) is str]
        if is_a(thing, list):
            return [(f"{name}[{at}]", one) for at, one in enumerate(thing[:])] if len(thing) <= MOST_INSIDE else []
        if is_a(thing, FunctionType):
            return list(_of_function(name, thing)) if self._is_own(thing.__code__.co_filename, thing.__module__) else []
        if is_a(thing, type):
            module = sys.modules.get(thing.__module__)
            own = self._is_own(str(attributes(module).get("__file__", "<")), thing.__module__)
            return [(f"{name}.{key}", one) for key, one in list(vars(thing).items()) if key[:2] != "__"] if own else []
        return [(f"{name}.{key}", one) for key, one in list(attributes(thing).items()) if type(key) is str]


def _locals(frame: FrameType) -> dict[str, Any]:
    """The local variables; empty if reading them could change the job, which then asks for its own `locals()`."""
    if frame.f_code.co_flags & 1 == 0:  # of a module: its globals
        return {}
    if not _SNAPSHOTS:
        return dict(frame.f_locals)
    if sys.gettrace() is not None or not _TAKES_LOCALS.isdisjoint(frame.f_code.co_names):
        return {}
    kept = frame.f_locals
    found = dict(kept)
    kept.clear()
    return found


def _of_function(name: str, function: FunctionType) -> Iterator[tuple[str, Any]]:
    for at, one in enumerate(function.__defaults__ or ()):
        yield f"a default of {name}(), number {at + 1}", one
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"{key} (in {name}())", cell.cell_contents
        except ValueError:  # it is empty
            continue


def _length(held: Any) -> int:
    if is_a(held, _lru_cache_wrapper):
        return int(held.cache_info().currsize)
    if not is_a(held, *_CONTAINERS):
        return sum(1 for _ in _terms(held))
    return next(kind.__len__(held) for kind in _CONTAINERS if is_a(held, kind))


def _is_sum(thing: Any) -> bool:
    return next(_terms(thing), None) is not None


def _terms(thing: Any) -> Iterator[Any]:
    """The additions, one within the other, by which a tensor of the job's was summed up; none of other things."""
    torch: Any = sys.modules.get("torch")
    if torch is None or type(thing) is not torch.Tensor:
        return
    with untouched():
        if torch.Tensor.is_leaf.__get__(thing) or torch.Tensor._is_view(thing):
            return
        node = torch.Tensor.grad_fn.__get__(thing)
    for _ in range(MOST_TERMS):
        if node is None or node.name() != "AddBackward0":
            return
        yield node
        before = [one for one, _ in node.next_functions if one is not None]
        node = next((one for one in before if one.name() == "AddBackward0"), None)


def _of_items(held: Any) -> tuple[str, int, bool]:
    """The last item: its kind, its bytes, and whether it keeps a graph; another one where no order is known."""
    if is_a(held, list, deque):
        return _of_item(held[-1]) if type(held) in (list, deque) and held else ("item", 0, False)
    if is_a(held, dict):
        key = next(dict.__reversed__(held), None)
        return _of_item(dict.get(held, key))
    return ("tensor with its graph", 0, True) if not is_a(held, set, _lru_cache_wrapper) else ("item", 0, False)


def _steady(lengths: list[tuple[int, int]]) -> float:
    """Items in a step, if as many came in both of the last two stretches; else 0."""
    if len(lengths) < 3:
        return 0.0
    (first, was), (middle, had), (last, has) = lengths
    rates = (had - was) / max(middle - first, 1), (has - had) / max(last - middle, 1)
    return (has - was) / (last - first) if min(rates) > 0 and max(rates) <= ALIKE * min(rates) else 0.0


def _of_item(item: Any, depth: int = 0) -> tuple[str, int, bool]:
    """The kind of an item, its bytes as far as tensors and arrays have them, and whether it keeps a graph."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and is_a(item, torch.Tensor):
        with untouched():
            graph = not torch.Tensor.is_leaf.__get__(item)
            size = torch.Tensor.numel(item) * torch.Tensor.element_size(item)
        return "tensor with its graph" if graph else "tensor", int(size), bool(graph)
    kind = type(item).__name__
    if kind == "ndarray":
        return kind, int(item.nbytes), False
    if is_a(item, list, tuple, dict) and depth < 2:
        inner = list(dict.values(item) if is_a(item, dict) else item[:8] if type(item) in (list, tuple) else ())[:8]
        told = [_of_item(one, depth + 1) for one in inner]
        graph = any(one[2] for one in told)
        return f"{kind} of a tensor with its graph" if graph else kind, sum(one[1] for one in told), graph
    return kind, sys.getsizeof(item) if type(item) in (str, bytes, bytearray) else 0, False
