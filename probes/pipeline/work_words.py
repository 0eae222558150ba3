"""Find the work that takes the time of loading, by the stacks seen meanwhile: tokenising, decoding, ..., and its lines.

The innermost frame that identifies the work decides: a library by its folder, a function of the user's by its name, and
a call in a line by the name of the called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

from ..stacks.folding import Folding
from ..stacks.named import what_loads
from ..stacks.sampling import StackSampler

MOST_FUNCTIONS = 5
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STAGES = ("fetch", "collate")  # functions of `source`
_METHODS = (  # part of a path, and functions there with other work than the rest of the folder
    ("transformers/tokenization", re.compile(r"\A_?(pad|flatten|as_tensor|convert_to_tensors)\Z"), "pad"),
    ("PIL/", re.compile(r"\A(resize|crop|rotate|transpose|transform|filter|enhance|blend)\Z"), "transform"),
)
_FOLDERS = (  # part of a path, and the work done there
    ("tokenizers/", "tokenise"),
    ("transformers/tokenization", "tokenise"),
    ("tiktoken/", "tokenise"),
    ("sentencepiece/", "tokenise"),
    ("PIL/", "decode"),
    ("torchvision/io/", "decode"),
    ("torchvision/transforms/", "transform"),
    ("albumentations/", "transform"),
    ("torchaudio/", "decode"),
    ("librosa/", "decode"),
    ("torchcodec/", "decode"),
    ("decord/", "decode"),
    ("imageio/", "decode"),
    ("h5py/", "read"),
    ("pyarrow/", "read"),
    ("pandas/", "pandas"),
    ("json/", "parse JSON"),
    ("gzip.py", "decompress"),
    ("zipfile", "decompress"),
    ("tarfile.py", "read"),
    ("pickle.py", "unpickle"),
    ("urllib", "network"),
    ("requests/", "network"),
    ("/ssl.py", "network"),
    ("/socket.py", "network"),
    ("transformers/data/data_collator.py", "collate"),
    ("torch/utils/data/_utils/collate.py", "collate"),
)
_NAMES = (  # of functions, and of calls in a line
    (re.compile(r"tokeni[sz]|batch_encode|encode_plus", re.IGNORECASE), "tokenise"),
    (re.compile(r"decode|imread", re.IGNORECASE), "decode"),
    (re.compile(r"decompress|gunzip", re.IGNORECASE), "decompress"),
    (re.compile(r"augment|random_?crop|transform|resize", re.IGNORECASE), "transform"),
    (re.compile(r"\Asleep\Z"), "sleep"),
    (re.compile(r"\A(p?read(into|line|lines|_bytes|_text|_file)?|open|fromfile|recv)\Z"), "read"),
    (re.compile(r"\A(findall|finditer|split|sub|subn|match|fullmatch|search)\Z"), "regular expressions and text"),
    (re.compile(r"\Aloads\Z"), "parse"),
    (re.compile(r"\Acollat", re.IGNORECASE), "collate"),
)


def work_of(sampler: StackSampler) -> dict[str, Any]:
    """The answer's `stacks`: for each stage the samples by kind of work, and the functions with most of them."""
    found: dict[str, dict[str, Any]] = {name: {"samples": 0, "work": {}, "lines": {}} for name in _STAGES}
    folding = Folding(sampler.codes)
    for stack, samples in sampler.stacks.items():
        stage, inner = _inside(stack, sampler)
        if stage is None:
            continue
        told = found[stage]
        told["samples"] += samples
        ((frames, _, calls),) = folding.of({inner: samples}) if inner else (((), "", None),)
        word = _word(inner, sampler, calls)
        if word:
            told["work"][word] = told["work"].get(word, 0) + samples
        if frames:
            file, line, function = what_loads(frames)
            lines = told["lines"].setdefault((file, function), {})
            lines[line, calls] = lines.get((line, calls), 0) + samples
    return {name: _listed(told) for name, told in found.items()} | {"why_none": sampler.why_none}


def _inside(stack: tuple[int, ...], sampler: StackSampler) -> tuple[str | None, tuple[int, ...]]:
    """The stage that was running, and the frames inside it, innermost first; None between the stages."""
    codes = [sampler.codes[identity][0] for identity in stack[::2]]
    ours = [at for at, code in enumerate(codes) if code.co_filename.startswith(_HERE)]
    stage = next((codes[at].co_name for at in ours if codes[at].co_name in _STAGES), None)
    return (stage, stack[: 2 * ours[0]]) if stage else (None, ())


def _word(stack: tuple[int, ...], sampler: StackSampler, calls: str | None) -> str:
    if calls is not None and (word := _of_name(calls)):
        return word
    codes: Iterator[CodeType] = (sampler.codes[identity][0] for identity in stack[::2])
    return next((word for word in map(_of_code, codes) if word), "")


def _of_code(code: CodeType) -> str:
    path = code.co_filename.replace(os.sep, "/")
    of_method = (word for part, names, word in _METHODS if part in path and names.match(code.co_name))
    of_folder = (word for part, word in _FOLDERS if part in path)
    return next(of_method, "") or next(of_folder, "") or _of_name(code.co_name)


def _of_name(name: str) -> str:
    return next((word for pattern, word in _NAMES if pattern.search(name)), "")


def _listed(told: dict[str, Any]) -> dict[str, Any]:
    """The functions with most samples, each with its line that has most of them."""
    functions = []
    for (file, function), lines in told["lines"].items():
        line, calls = max(lines, key=lambda each: lines[each])
        found = {"file": file, "line": line, "function": function, "calls": calls, "samples": sum(lines.values())}
        functions.append(found)
    most = sorted(functions, key=lambda each: -each["samples"])[:MOST_FUNCTIONS]
    return {"samples": told["samples"], "work": told["work"], "functions": most}
