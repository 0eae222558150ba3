"""What a verdict says of a job without a GPU, whose operators run on the host."""

from diagnose.attribution.causes import CAUSES
from diagnose.diagnosis import LedgerEntry, Verdict
from diagnose.judge.verdict import Grounds, verdict_of

ON_HOST = Grounds(of="the host step", has_gpu=False)


def verdict(python: float) -> Verdict:
    """Of a step with so much Python; the rest of it is operators, reductions for the most part."""
    shares = {"python": python, "operator-compute": 0.1, "operator-reduction": 0.9 - python}
    entries = [
        LedgerEntry(cause=name, class_=CAUSES[name].class_, ns=round(share * 1e9), share=share)
        for name, share in shares.items()
    ]
    return verdict_of(tuple(entries), ON_HOST)


def test_a_class_that_is_not_the_largest_says_why_it_leads() -> None:
    assert verdict(python=0.3).because.startswith(
        "30.0 % of the host step is host code around the operators, which names the class from 20 % on"
    )
    assert verdict(python=0.6).because.startswith("60.0 % of the host step is host code around the operators")
