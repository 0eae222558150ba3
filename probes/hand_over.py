"""The only functions by which the probes hand a callable to the job: a hook, a method around one of its own, a thread.

An exception of a hook ends here, and is printed once. A method around the job's calls the job's own exactly once, and
its result or exception reaches the job. Exceptions of the job's signal handlers go through, everywhere.
`tests/harmless/test_hooks.py` knows the calls by which a callable is handed over, and finds those made elsewhere.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from .guard import described, quietly, say
from .interrupts import let_out

Hook = Callable[..., Any]
Around = Callable[..., Any]
"""Takes the job's own function, to be called, and then what that was called with."""


def harmless(function: Hook, doing: str) -> Hook:
    """`function` as a plain closure that raises nothing of its own: `doing` begins the line that reports one."""
    failed = _Failures(doing)

    def called(*args: Any, **kwargs: Any) -> Any:
        handled = sys.exc_info()[1]
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            let_out(error, handled)
            failed.tell(error)
            return None

    return called


def wrapping(original: Any, around: Around, doing: str) -> Any:
    """Wrap the job's own `original`: `around` is called with it and with the arguments of each call."""
    failed = _Failures(doing)

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = _Call(original)
        handled = sys.exc_info()[1]
        try:
            try:
                return around(call, *args, **kwargs)
            except BaseException as error:
                if error is call.error:
                    raise
                let_out(error, handled)
                failed.tell(error)
            if call.error is not None:
                raise call.error
            return call.value if call.ended else original(*args, **kwargs)
        finally:
            call.forget()  # the traceback refers to this frame: no object of the job's may live in a cycle

    return wrapped


def replace(owner: Any, name: str, around: Around, doing: str, mark: str = "__diagnose__") -> None:
    """Wrap the attribute `name` of `owner` in `around`, once for each `mark`; ignore an attribute that is missing."""
    original = getattr(owner, name, None)
    if original is not None and not hasattr(original, mark):
        wrapped = wrapping(original, around, doing)
        setattr(wrapped, mark, doing)
        setattr(owner, name, wrapped)


def replace_everywhere(owner: Any, name: str, around: Around, doing: str, aliases: Iterable[Any]) -> None:
    """Replace the attribute as `replace` does, and what the `aliases` have by that name, so that it is pickled."""
    original = getattr(owner, name, None)
    replace(owner, name, around, doing)
    for alias in aliases:
        if original is not None and getattr(alias, name, None) is original:
            setattr(alias, name, getattr(owner, name))


def put_back(owner: Any, name: str, mark: str = "__diagnose__") -> None:
    """Put the job's own attribute back in the place of what `replace` made; leave what the job put there since."""
    wrapped: Any = getattr(owner, name, None)
    if hasattr(wrapped, mark):
        setattr(owner, name, wrapped.__wrapped__)


def left_as_it_is(wrapped: Any, around: Around) -> None:
    """Keep torch.compile out of the frames of what `wrapping` made, which a graph break may run into.

    Raises:
        AttributeError: this torch has no such call. Nothing is imported for it.
    """
    frames = sys.modules["torch"]._C._dynamo.eval_frame
    as_it_is = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
    for function in (wrapped, around, _Call.__call__, _Call.__init__, _Call.forget):
        frames.set_code_exec_strategy(function.__code__, as_it_is)


def replace_classmethod(owner: Any, name: str, around: Around, doing: str, mark: str) -> None:
    """Replace a class method as `replace` does; `around` gets the class first."""
    original = vars(owner)[name].__func__
    if not hasattr(original, mark):
        wrapped = wrapping(original, around, doing)
        setattr(wrapped, mark, doing)
        setattr(owner, name, classmethod(wrapped))


def replace_static(owner: Any, name: str, around: Around, doing: str) -> None:
    """Replace a static method as `replace` does."""
    original = vars(owner)[name].__func__
    if not hasattr(original, "__diagnose__"):
        wrapped = wrapping(original, around, doing)
        wrapped.__diagnose__ = doing
        setattr(owner, name, staticmethod(wrapped))


def replace_property(owner: Any, name: str, around: Around, doing: str) -> None:
    """Replace a property without a setter as `replace` does."""
    setattr(owner, name, property(wrapping(getattr(owner, name).fget, around, doing)))


def untraced(function: Hook) -> Hook:
    """`function`, excluded from torch.compile if an optimizer's step is compiled; unchanged if torch cannot exclude it.

    Torch marks the function as excluded, which a bound method does not allow.
    """
    began = False

    def plain(*args: Any, **kwargs: Any) -> Any:
        nonlocal began
        began = True
        return function(*args, **kwargs)

    disable = getattr(sys.modules["torch"], "_disable_dynamo", None)
    disabled: Any = quietly(lambda: disable(plain)) if disable is not None else None
    if not callable(disabled):
        return plain

    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal began, disabled
        if disabled is None:
            return plain(*args, **kwargs)
        handled, began = sys.exc_info()[1], False
        try:
            return disabled(*args, **kwargs)
        except BaseException as error:
            if began:
                raise
            let_out(error, handled)
            disabled = None
        return plain(*args, **kwargs)

    return called


def before_optimizer_steps(function: Hook, doing: str) -> None:
    """Call `function(optimizer, args, kwargs)` before each step of any optimizer of torch."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(untraced(_answering_nothing(harmless(function, doing))))


def after_optimizer_steps(function: Hook, doing: str) -> None:
    """Call `function(optimizer, args, kwargs)` after each step of any optimizer of torch."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(untraced(harmless(function, doing)))


def before_forward(module: Any, function: Hook, doing: str) -> Any:
    """Call `function(module, args)` before each call of `module`; `remove()` on the result ends that."""
    return module.register_forward_pre_hook(_answering_nothing(harmless(function, doing)))


def around_compilations(begins: Hook, ends: Hook, doing: str) -> None:
    """Call `begins()` and `ends()` where torch.compile compiles, also after the job has reset it.

    Raises:
        AttributeError: this torch has no such callbacks.
    """
    handler = sys.modules["torch._dynamo.callback"].callback_handler
    began, ended = harmless(begins, doing), harmless(ends, doing)

    def register() -> None:
        handler.register_start_callback(began)
        handler.register_end_callback(ended)

    def cleared(original: Any, *args: Any) -> Any:
        result = original(*args)
        register()
        return result

    register()
    replace(type(handler), "clear", cleared, doing)


def around_imports(imports: Any, begins: Hook, ends: Hook, doing: str) -> None:
    """Call `begins()` and `ends()` around those imports of the job that the start-up file measures."""
    imports.began, imports.ended = harmless(begins, doing), harmless(ends, doing)


def when_gone(thing: Any, function: Hook, doing: str) -> Any:
    """A weak reference to `thing`; `function()` is called when that is gone and the reference is still there."""
    gone = harmless(function, doing)
    return weakref.ref(thing, lambda _: gone())


def when_cuda_begins(function: Hook, doing: str) -> None:
    """Call `function()` when the job initialises CUDA; at once if it already has."""
    sys.modules["torch"].cuda._lazy_call(harmless(function, doing))


def at_out_of_memory(function: Hook, doing: str) -> None:
    """Call `function(...)` when the allocator is about to raise an OOM.

    Raises:
        AttributeError: this torch has no such call.
    """
    sys.modules["torch"]._C._cuda_attach_out_of_memory_observer(harmless(function, doing))


def at_exit(function: Hook, doing: str) -> None:
    """Call `function()` when the interpreter ends."""
    atexit.register(harmless(function, doing))


def in_forked_children(function: Hook, doing: str) -> None:
    """Call `function()` in each child that the process forks, if the system can fork."""
    register: Any = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=harmless(function, doing))


def on_signal(number: int, function: Hook, doing: str) -> Hook:
    """Call `function(number, frame)` when the signal comes; return the handler, as `signal.getsignal` returns it."""
    handler = harmless(function, doing)
    signal.signal(number, handler)
    return handler


def in_a_thread(function: Hook, doing: str) -> None:
    """Call `function()` in one of the interpreter's bare threads, which pass exceptions to a hook of the job's.

    Raises:
        RuntimeError: no thread can be had.
    """
    _thread.start_new_thread(harmless(function, doing), ())


def a_thread(function: Hook, doing: str) -> threading.Thread:
    """A thread that calls `function()` once it is started, does not hold up the exit, and can be joined."""
    return threading.Thread(target=harmless(function, doing), daemon=True)


def on_audit_events(function: Hook, doing: str) -> None:
    """Call `function(event, args)` at each audit event of Python, as long as the process lives."""
    sys.addaudithook(harmless(function, doing))


def a_callback(name: str, events: type, base: type, doing: str) -> Any:
    """A class `name` of the trainer's callbacks, derived from `base`, whose `on_...` are those of `events`."""
    methods = {each: harmless(method, doing) for each, method in vars(events).items() if each.startswith("on_")}
    return type(name, (events, base), methods)


def _answering_nothing(function: Hook) -> Hook:
    """A hook that returns None: torch would take another result as changed arguments."""

    def called(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)

    return called


class _Call:
    """The job's own function, and how its last call ended: with `value` if it has `ended`, or with `error`."""

    __slots__ = ("_forgets", "_function", "ended", "error", "value")

    def __init__(self, function: Any) -> None:
        self._function = function
        self._forgets = False
        self.ended = False
        self.error: BaseException | None = None
        self.value: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.ended, self.error = False, None
        try:
            self.value = self._function(*args, **kwargs)
        except BaseException as error:
            self.error = None if self._forgets else error
            raise
        self.ended = True
        return self.value

    def forget(self) -> None:
        """Keep no error of the call, now or later: a wrapper may keep the function for longer."""
        self.error, self._forgets = None, True


def forgive(function: Any) -> None:
    """Forget the last error of the job's `function`: the job did not cause it, the value of a patch did."""
    if isinstance(function, _Call):
        function.error = None


class _Failures:
    """Errors of one hook: only the first is printed, since a hook is called at every step."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._said = False

    def tell(self, error: BaseException) -> None:
        if not self._said:
            self._said = True
            say(f"{self._doing}: {described(error)}")
