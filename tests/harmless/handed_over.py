"""Where the probes hand a callable to the job, and a job in which all of these raise."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROBES = Path(__file__).parents[2] / "probes"
DOOR = PROBES / "hand_over.py"
_HANDS_OVER = re.compile(
    r"_?register(_\w+)?|setattr|__setattr__|property|classmethod|signal|atexit|start_new_thread|Thread|Timer|finalize"
    r"|_lazy_call|\w*out_of_memory_observer|add_callback|on_exit|settrace\w*|setprofile\w*|addaudithook"
    r"|set_\w*(hook|observer|handler)|\w+FUNCTYPE"
)
_TAKES_CALLS = re.compile(r"callbacks|meta_path|path_hooks|_hooks")
_KEYWORDS = {"on_trace_ready", "target", "callback", "hook"}


def sites() -> set[str]:
    """Each call of the door, as `file:function`, the function that it stands in."""
    doors = {each.name for each in ast.parse(DOOR.read_text()).body if isinstance(each, ast.FunctionDef)} - {
        "forgive",
        "left_as_it_is",
        "put_back",
    }
    found = set()
    for path, tree in _modules():
        known = doors & {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(DOOR.stem)
            for name in node.names
        }
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                own = [node for node in _without_inner(function) if isinstance(node, ast.Call)]
                if any(isinstance(node.func, ast.Name) and node.func.id in known for node in own):
                    found.add(f"{path.relative_to(PROBES)}:{function.name}")
    return found


def bypassing() -> Iterator[str]:
    """Each line that hands a callable over by itself, as `file: source`."""
    for path, tree in _modules():
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if (isinstance(node, ast.Call) and _is_handing_over(node)) or _sets_a_function(node, functions):
                yield f"{path.relative_to(PROBES)}: {ast.unparse(node)}"


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PROBES.rglob("*.py")):
        if path != DOOR:
            yield path, ast.parse(path.read_text())


def _without_inner(function: ast.FunctionDef) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.FunctionDef)]


def _is_handing_over(call: ast.Call) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    into = ast.unparse(call.func).rpartition(".")[0]
    return (
        bool(_HANDS_OVER.fullmatch(name))
        or (name == "type" and len(call.args) == 3)
        or (name == "ref" and len(call.args) > 1)
        or (name in ("append", "insert", "extend") and bool(_TAKES_CALLS.search(into)))
        or any(keyword.arg in _KEYWORDS for keyword in call.keywords)
    )


def _sets_a_function(node: ast.AST, functions: set[str]) -> bool:
    """Whether an attribute of something else than `self`, or a part of one, is set to a function."""
    if not isinstance(node, ast.Assign):
        return False
    values = list(ast.walk(node.value))
    function = any(isinstance(each, ast.Lambda) for each in values) or (
        isinstance(node.value, ast.Name) and node.value.id in functions
    )
    hooks = any("hook" in ast.unparse(target) or "callbacks" in ast.unparse(target) for target in node.targets)
    outside = any(
        isinstance(target, ast.Attribute | ast.Subscript) and not ast.unparse(target).startswith("self.")
        for target in node.targets
    )
    return outside and (function or hooks)


BROKEN = """
import os, sys
for _name in [each for each in sys.modules if each.startswith("diagnose")]:
    del sys.modules[_name]  # what is imported already has the door as it was
from diagnose.probes import hand_over
def _site():
    frame = sys._getframe(1)
    while frame.f_code.co_filename in (hand_over.__file__, __file__) or frame.f_code.co_name.startswith("<"):
        frame = frame.f_back
    return frame.f_code.co_filename.rpartition("probes/")[2] + ":" + frame.f_code.co_name
def _reached(site):
    file = os.open(os.path.join(sys.argv[1], "reached"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, (site + "\\n").encode())
    os.close(file)
def _broken(call, waited_for=False):
    site = _site()
    def breaks(*args, **kwargs):
        _reached(site)
        if WHEN == "after" or waited_for:
            call(*args, **kwargs)
        raise RuntimeError("injected")
    return breaks
_harmless, _wrapping, _in_a_thread = hand_over.harmless, hand_over.wrapping, hand_over.in_a_thread
hand_over.harmless = lambda function, doing: _harmless(_broken(function), doing)
hand_over.wrapping = lambda original, around, doing: _wrapping(original, _broken(around), doing)
def in_a_thread(function, doing):  # that its work never begins is nothing that it could raise
    import _thread
    _thread.start_new_thread(_harmless(_broken(function, waited_for=True), doing), ())
hand_over.in_a_thread = in_a_thread
"""
"""The begin of a script: every callable that the probes hand over raises, before or after what it is for."""
