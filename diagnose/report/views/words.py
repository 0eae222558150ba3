"""Parts of a Diagnosis in the words people use: causes, patches, evidence, MFU."""

import re
from collections.abc import Callable, Sequence
from functools import partial

from diagnose.attribution.causes import CAUSES, EXPOSED, EXPOSED_TRANSFER
from diagnose.diagnosis import Diagnosis, Evidence, Mfu, NotJudged, Patch
from diagnose.facts import spoken
from diagnose.patch import patches
from diagnose.report.views.plain import plain

LONGEST_NAME = 100  # of a kernel, in characters
GUARDS = frozenset({"has_gpu", "world_size", "ranks_analyzed"})  # facts that only decide whether a rule applies
TRANSFER = "transfer_share"  # the fact that is known if transfer and waiting could be separated
Named = Callable[[str], str]
_COUNTED_BY = {
    "given": ", FLOPs as given",
    "palm": ", FLOPs by PaLM's count",
    "palm-frozen": ", FLOPs by PaLM's count with frozen weights",
    "causal": ", FLOPs by Megatron's count",
    "6n": ", 6 FLOPs per parameter and token",
    "6n-attention": ", FLOPs by nanotron's and llm-foundry's count",
    "hf": ", FLOPs by transformers' count",
    "operators": ", FLOPs of the operators that ran",
}
_CONVENTION_NAMES = {
    "given": "as given",
    "palm": "PaLM",
    "palm-frozen": "PaLM with frozen weights",
    "causal": "Megatron (causal)",
    "6n": "6N",
    "6n-attention": "nanotron and llm-foundry",
    "hf": "transformers",
    "operators": "operators",
}
_NAMESPACES = re.compile(r"\b(?:at::native|at::cuda|at::detail|at|c10|cutlass|std)::|\(anonymous namespace\)::|^void ")


def causes_named(diagnosis: Diagnosis) -> Named:
    """The labels of causes in this diagnosis."""
    divided = diagnosis.fact(TRANSFER) is not None
    return partial(cause_name, divided=divided)


def cause_name(cause: str, divided: bool = False) -> str:
    """The label of a cause or part; one that is not in the table keeps its words.

    Args:
        cause: the cause as in the breakdown.
        divided: whether waiting is split from transfer, so that exposed communication is the transfer alone.
    """
    if divided and cause == EXPOSED:
        return EXPOSED_TRANSFER
    return CAUSES[cause].label if cause in CAUSES else _cut(plain(cause).replace("_", " ").replace("-", " "))


def first_sentence(text: str) -> str:
    """The first sentence; a point inside a number or a name ends none."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z0-9])", plain(text), maxsplit=1)[0]


def patch_lines(patch: Patch | None) -> list[str]:
    """The change as it is typed in code; each environment variable is a line of its own."""
    return [] if patch is None else [plain(line) for line in patches.python_lines(patch)]


def flags_line(patch: Patch | None) -> str:
    """The same change as flags of a script that parses TrainingArguments; empty for other targets."""
    return "" if patch is None else plain(patches.flags(patch))


def evidence_line(evidence: Sequence[Evidence]) -> str:
    """The facts with their values, each share with its denominator; guards only where there is nothing else."""
    telling = [item for item in evidence if item.fact not in GUARDS]
    parts = (
        f"{item.fact} {spoken(item.value, item.unit)}" + (f" of {item.of}" if item.of else "")
        for item in telling or evidence
    )
    return "; ".join(plain(part) for part in parts)


def mfu_denominator(mfu: Mfu) -> str:
    """The peak that MFU is a share of, briefly: "989 TFLOP/s dense bf16, H100-SXM5-80GB"."""
    number = _tflops(mfu.peak_flops or 0)
    if not mfu.peak_device:
        return plain(f"{number} ({mfu.peak_source})" if mfu.peak_source else number)
    doubt = "" if mfu.peak_is_verified else " (unverified)"
    return plain(f"{number} dense {mfu.peak_precision}, {mfu.peak_device}{doubt}")


def mfu_line(mfu: Mfu, details: bool = False) -> str:
    """The denominator of MFU, with `details` its formula; or why it is unknown and what supplies it."""
    if mfu.value is None:
        return _mfu_unknown(mfu)
    least = f"; a lower bound, since the FLOPs of {mfu.missing} per step are not known" if mfu.missing else ""
    if not details:
        counted_by = (_COUNTED_BY.get(mfu.conventions[0].name, "") if mfu.conventions else "") + _once(mfu)
        return plain(f"MFU of {mfu_denominator(mfu)}{counted_by}{_own_precision(mfu)}{least}")
    peak = "" if mfu.peak_flops is None else f"{mfu.peak_flops / 1e12:,.1f} TFLOP/s"
    source = f" ({mfu.peak_source})" if mfu.peak_source else ""
    flops = "" if mfu.model_flops_per_step is None else f": {spoken(mfu.model_flops_per_step, 'flops')} per step"
    return plain(f"MFU = {mfu.numerator}{flops} / (peak {peak} x the step){source}{least}")


def _once(mfu: Mfu) -> str:
    """A note that recomputation is not counted, if MFU counts the operators that ran and some ran again; else ""."""
    by_operators = bool(mfu.conventions) and mfu.conventions[0].name == "operators"
    return " once, recomputation left out" if by_operators and mfu.executed_value != mfu.value else ""


def mfu_details(mfu: Mfu) -> list[str]:
    """The other ways to count the same work, a line each; none without MFU."""
    each = ", ".join(f"{_CONVENTION_NAMES[c.name]} {spoken(c.value, 'share')}" for c in mfu.conventions if c.value)
    ran = (
        ""
        if mfu.executed_value in (None, mfu.value)
        else f"operators that ran (HFU) {spoken(mfu.executed_value, 'share')}"
    )
    useful = "" if mfu.goodput_value is None else f"without padding {spoken(mfu.goodput_value, 'share')}"
    speed = "" if mfu.tokens_per_s is None else f"{mfu.tokens_per_s:,.0f} tokens/s per GPU"
    conventions = f"MFU by convention: {each}" if len(mfu.conventions) > 1 else ""
    check = f"numerator: {mfu.check}" if mfu.check else ""
    reached = (
        ""
        if mfu.reached_value is None or mfu.reached_flops is None
        else f"of what this GPU reaches ({_tflops(mfu.reached_flops)}, measured) {spoken(mfu.reached_value, 'share')}"
    )
    useful = "; ".join(filter(None, (useful, reached)))
    return [plain(line) for line in (conventions, "; ".join(filter(None, (ran, useful, speed))), check) if line]


def _own_precision(mfu: Mfu) -> str:
    if mfu.own_value is None or mfu.own_peak_flops == mfu.peak_flops:
        return ""
    peak = _tflops(mfu.own_peak_flops or 0)
    return f"; {spoken(mfu.own_value, 'share')} of the {peak} of {mfu.own_precision}, in which most of it ran"


def _tflops(peak: float) -> str:
    return f"{peak / 1e12:,.0f} TFLOP/s" if peak >= 1e14 else f"{peak / 1e12:,.1f} TFLOP/s"


def _mfu_unknown(mfu: Mfu) -> str:
    hint = f"; or pass {' and '.join(mfu.or_pass)}" if mfu.or_pass else ""
    return plain(f"MFU is unknown: {mfu.reason}{hint}")


def to_capture(item: NotJudged) -> str:
    """What to capture, worded for use under such a heading; empty if no capture would help."""
    return "; ".join(plain(c.wanted) for c in item.captures) if all(c.helps for c in item.captures) else ""


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def times(count: float) -> str:
    """A count per step: with a decimal if it is small and not a whole number."""
    return f"{count:,.{0 if count >= 100 or float(count).is_integer() else 1}f}"


def spans(numbers: Sequence[int]) -> str:
    """Ascending numbers with runs of three or more abbreviated, such as "1, 4-7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def short_name(name: str) -> str:
    """The name without namespaces and arguments, cut to what a column holds."""
    bare = _NAMESPACES.sub("", plain(name))
    bare = bare[: _arguments_at(bare)].strip() or plain(name)
    return _cut(bare)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _arguments_at(name: str) -> int:
    """The position of the list of arguments: the first parenthesis outside of template brackets."""
    depth = 0
    for at, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth <= 0 and at:
            return at
    return len(name)
