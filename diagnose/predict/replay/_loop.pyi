from numpy import bool_, float64, int64
from numpy.typing import NDArray

VERSION: int

def passed(
    before: NDArray[float64],
    own: NDArray[float64],
    latency: NDArray[float64],
    gap: NDArray[float64],
    duration: NDArray[float64],
    owner: NDArray[int64],
    stream: NDArray[int64],
    edge: NDArray[int64],
    wait: NDArray[int64],
    takes_a_place: NDArray[bool_],
    called: NDArray[float64],
    ended: NDArray[float64],
    clocks: NDArray[float64],
    begun: NDArray[float64],
    first: NDArray[int64],
    following: NDArray[int64],
    edge_ns: float,
    /,
) -> None: ...
