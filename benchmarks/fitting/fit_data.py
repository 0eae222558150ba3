"""The data files of the product that a fit renews: the stacks' rates, and what widens their ranges."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from diagnose.commands.fit.stacks import MeasuredRuns, StackRates

from .rates import DENSE_RATES

_FOLDER = Path(__file__).parents[2] / "diagnose" / "data"
STACKS, RANGES = _FOLDER / "training_stacks.toml", _FOLDER / "step_ranges.toml"
_HEAD = """\
# What widens the range of a predicted step, and what was run. Written by `python benchmarks/fit.py TABLES --write`.
# A factor is how far off four in five left-out rows are at most, assumed rates apart; each left-out value counts once,
# however many rows it has.
"""


def updated(text: str, stack: StackRates, rates: Sequence[str] = DENSE_RATES) -> str:
    """The text of the stacks' file with the section of one renewed."""
    head, section, rest = re.split(rf"^(\[{stack.name}\]\n(?:(?!\[).*\n)*)", text, maxsplit=1, flags=re.M)
    for name in rates:
        rate = rf"{name} = {getattr(stack, name):.3g}"
        section, found = re.subn(rf"^{name} = [^ \n]*", rate, section, flags=re.M)
        if not found:
            raise ValueError(f"{STACKS.name} has no {name} of {stack.name}")
    span = ", ".join(f"{name} = [{low}, {high}]" for name, (low, high) in stack.span.items())
    odds = ", ".join(f"{name} = {value}" for name, value in stack.stall_odds.items())
    odds = f"{{ {odds} }}" if odds else "{}"
    section = re.sub(r"^stall_odds = .*$", f"stall_odds = {odds}", section, flags=re.M)
    return head + re.sub(r"^span = .*$", f"span = {{ {span} }}", section, flags=re.M) + rest


def ranges_text(factors: Mapping[str, tuple[float, int, str]], stacks: Iterable[StackRates]) -> str:
    """The text of the file of ranges: factors with the rows and the folds behind each, and what was measured."""
    return "\n".join([_HEAD, *_factors(factors), *(line for stack in stacks for line in _stack(stack))])


def _factors(factors: Mapping[str, tuple[float, int, str]]) -> Iterator[str]:
    for name, (value, rows, source) in factors.items():
        yield f'[factor.{name}]\nfactor = {value:.3g}\nrows = {rows}\nsource = "{source}"\n'


def _stack(stack: StackRates) -> Iterator[str]:
    yield f"[stack.{stack.name}]"
    ends = ", ".join(f"{name} = [{low:.3g}, {high:.3g}]" for name, (low, high) in stack.assumed.items())
    yield f"assumed = {{ {ends} }}" if ends else "assumed = {}"
    yield "measured = ["
    yield from (f"  {{ {', '.join(_cells(runs))} }}," for runs in stack.measured)
    yield "]\n"


def _cells(runs: MeasuredRuns) -> Iterator[str]:
    yield f'board = "{runs.board}"'
    kinds = ", ".join(f'"{kind}"' for kind in runs.kinds)
    yield f"kinds = [{kinds}]"
    yield f"experts = {str(runs.experts).lower()}"
    yield f"rows = {runs.rows}"
    for name in ("parameters", "seq_len", "nodes"):
        low, high = getattr(runs, name)
        yield f"{name} = [{low}, {high}]"
