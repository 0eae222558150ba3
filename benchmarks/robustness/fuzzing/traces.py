"""Mutations that know what a trace is: its steps, its operators' shapes, its links, its collectives, its clocks."""

import random
from collections.abc import Callable
from typing import Any

from .trace_values import COLLECTIVE, DIMS, LINKS, METADATA, NAMES
from .tree import mutate
from .values import LARGEST, NUMBERS, bent, odd

Document = dict[str, Any]
Events = list[dict[str, Any]]


def damage(seeded: random.Random, document: Document) -> None:
    """One mutation of a trace's document, in place."""
    events = document.get("traceEvents")
    sound = isinstance(events, list) and events and all(isinstance(e, dict) for e in events)
    if not sound or seeded.random() < 0.4:
        mutate(seeded, document if seeded.random() < 0.7 or not sound else _some(seeded, events))
    else:
        seeded.choice(_WAYS)(seeded, document, events)


def _some(seeded: random.Random, events: Events) -> Events:
    """A few events of one category, so that the rare are met as often as the common."""
    kind = seeded.choice(sorted({str(e.get("cat")) for e in events}))
    return [e for e in events if str(e.get("cat")) == kind]


def _args(event: dict[str, Any]) -> dict[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _chosen(seeded: random.Random, events: Events) -> Events:
    return seeded.sample(events, min(len(events), seeded.choice([1, 1, 2, 5, len(events)])))


def _dims(seeded: random.Random, document: Document, events: Events) -> None:
    value, key = (
        seeded.choice(DIMS),
        seeded.choice(["Input Dims"] * 5 + ["Input type", "Concrete Inputs", "Input dims"]),
    )
    shaped = [e for e in events if "Input Dims" in _args(e)]
    for event in _chosen(seeded, shaped or events):
        event["args"] = _args(event) | {key: value}


def _names(seeded: random.Random, document: Document, events: Events) -> None:
    name = seeded.choice(NAMES)
    for event in _chosen(seeded, _some(seeded, events)):
        event["name"] = name


def _links(seeded: random.Random, document: Document, events: Events) -> None:
    key = seeded.choice(LINKS)
    value = seeded.choice([0, -1, 1, 2**31, 2**63, "x", None, [1], 1.5, *NUMBERS])
    for event in _chosen(seeded, [e for e in events if key in _args(e)]):
        event["args"][key] = value


def _shuffled_links(seeded: random.Random, document: Document, events: Events) -> None:
    linked = [e for e in events if "correlation" in _args(e)]
    numbers = [_args(e)["correlation"] for e in linked]
    for event, number in zip(linked, seeded.sample(numbers, len(numbers)), strict=True):
        event["args"]["correlation"] = number


def _collective(seeded: random.Random, document: Document, events: Events) -> None:
    calls = [e for e in events if "Collective name" in _args(e)]
    key = seeded.choice(COLLECTIVE)
    texts = [
        "allreduce", "send", "recv", "barrier", "_allgather_base", "[0, 1", "[]", "[9, 9]", "[0, 1, ..., 7]", "", "x",
    ]  # fmt: skip
    value = seeded.choice([*texts, *NUMBERS, None, [], {}, [0, 1]])
    for event in _chosen(seeded, calls or events):
        event["args"] = {**_args(event), key: value}


def _times(seeded: random.Random, document: Document, events: Events) -> None:
    key, way = seeded.choice(["ts", "dur"]), seeded.choice(["same", "scaled", "moved", "odd", "negative"])
    value, factor, shift = (
        seeded.choice(NUMBERS),
        seeded.choice([0, 1e-9, 1e3, 1e9, 1e15]),
        seeded.choice([1e9, -1e13, 1e16]),
    )
    for event in _chosen(seeded, [e for e in events if _is_number(e.get(key))]):
        now = event[key]
        ways = {"same": 0, "scaled": now * factor, "moved": now + shift, "odd": value, "negative": -now}
        event[key] = ways[way]


def _is_number(value: Any) -> bool:
    """Whether one can reckon with it: there are whole numbers that no float holds."""
    return isinstance(value, int | float) and abs(value) < LARGEST


def _categories(seeded: random.Random, document: Document, events: Events) -> None:
    kinds = sorted({str(e.get("cat")) for e in events})
    kind, other = (
        seeded.choice(kinds),
        seeded.choice([*kinds, "gpu_memset", "python_function", "cpu_op", "kernel", "fwdbwd"]),
    )
    way = seeded.randrange(4)
    if way == 0:
        document["traceEvents"] = [e for e in events if str(e.get("cat")) != kind]
    elif way == 1:
        document["traceEvents"] = [e for e in events if str(e.get("cat")) == kind]
    else:
        for event in _chosen(seeded, [e for e in events if str(e.get("cat")) == kind]):
            event["cat" if way == 2 else "ph"] = other if way == 2 else seeded.choice("BEiCMXsf?")


def _steps(seeded: random.Random, document: Document, events: Events) -> None:
    marks = [e for e in events if str(e.get("name")).startswith("ProfilerStep")]
    numbers = ["-1", "0", "7", "9" * 25, "", "x", "1.5", "4294967296", "٣"]
    for event in _chosen(seeded, marks):
        event["name"] = f"ProfilerStep#{seeded.choice(numbers)}"
    if seeded.random() < 0.3 and marks:
        one = seeded.choice(marks)
        one["ts"], one["dur"] = seeded.choice(events).get("ts"), seeded.choice([0, 1e9, one.get("dur")])


def _copies(seeded: random.Random, document: Document, events: Events) -> None:
    chosen = _chosen(seeded, events)
    events.extend(dict(e) for _ in range(seeded.choice([1, 3, 20])) for e in chosen[:100])


def _cut(seeded: random.Random, document: Document, events: Events) -> None:
    begin = seeded.randrange(len(events))
    part = events[begin : begin + seeded.choice([1, 5, 50, 500])]
    document["traceEvents"] = part if seeded.random() < 0.5 else [e for e in events if e not in part]


def _places(seeded: random.Random, document: Document, events: Events) -> None:
    key = seeded.choice(["pid", "tid"])
    value = seeded.choice([0, -1, 2**63, "Spans", "GPU 0", None, [1], {}, 1.5, *NUMBERS])
    for event in _chosen(seeded, events):
        event[key] = seeded.choice([value, event.get("tid")])


def _exchange(seeded: random.Random, document: Document, events: Events) -> None:
    one, other = seeded.choice(events), seeded.choice(events)
    key = seeded.choice(["ts", "dur", "cat", "name", "args", "tid", "pid"])
    one[key], other[key] = other.get(key), one.get(key)


def _metadata(seeded: random.Random, document: Document, events: Events) -> None:
    key = seeded.choice([*METADATA, "deviceProperties", "distributedInfo"])
    value = seeded.choice([*METADATA[key], odd(seeded)])
    held = document.get(key)
    document[key] = bent(seeded, held) if held is not None and key != "traceEvents" and seeded.random() < 0.3 else value


Way = Callable[[random.Random, Document, Events], None]
_WAYS: tuple[Way, ...] = (
    _dims, _dims, _names, _links, _shuffled_links, _collective, _times, _times, _categories, _steps, _copies, _cut,
    _places, _exchange, _metadata,
)  # fmt: skip
