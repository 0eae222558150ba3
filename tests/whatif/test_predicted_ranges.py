"""What holds of each predicted range."""

from math import inf

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from whatif.predicted import device_bound, loading, predictor, rule

from diagnose.predict.whatif import Predictor

FACTOR = st.floats(0.01, 2)
PAIR = st.tuples(FACTOR, FACTOR)
DEVICE, HOST = predictor(device_bound(3)), predictor(loading(4, 10, 3))


def text(kernels: tuple[float, float], host: tuple[float, float], launches: tuple[float, float]) -> str:
    spans = [f"[{best:.4f}, {worst:.4f}]" for best, worst in (kernels, host, launches)]
    return f"kernels = {{ all = {spans[0]} }}\nhost = {{ data-wait = {spans[1]} }}\nlaunches = {spans[2]}"


@settings(max_examples=30, deadline=None, database=None)
@given(kernels=PAIR, host=PAIR, launches=PAIR, less=st.floats(0.01, 1), found=st.sampled_from([DEVICE, HOST]))
def test_a_range_is_in_order_ends_at_1_or_above_and_is_no_less_for_smaller_factors(
    kernels: tuple[float, float],
    host: tuple[float, float],
    launches: tuple[float, float],
    less: float,
    found: Predictor,
) -> None:
    gain = found.predict(rule(text(kernels, host, launches)))
    smaller = [(best * less, worst * less) for best, worst in (kernels, host, launches)]
    more = found.predict(rule(text(*smaller)))
    assume(gain is not None and more is not None)  # what hides behind a profiled host is not known
    low, high, more_low, more_high = (inf if end is None else end for end in (*gain, *more))  # type: ignore[misc]

    assert 0 < low <= high >= 1
    assert more_low >= low * (1 - 1e-3)
    assert more_high >= high * (1 - 1e-3)
