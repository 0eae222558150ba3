from collections.abc import Callable

from numpy import float64, int32, int64
from numpy.typing import NDArray

VERSION: int
INTEGERS: tuple[str, ...]
RATES: tuple[str, ...]
IDS: tuple[str, ...]

class Scanner:
    def __new__(
        cls,
        name: Callable[[bytes], int],
        cat: Callable[[bytes], int],
        shape: Callable[[bytes, bytes, bytes], int],
        integer: Callable[[bytes], int],
        seed: int,
        /,
    ) -> Scanner: ...
    def scan(
        self,
        text: bytes | memoryview,
        integers: NDArray[int64],
        rates: NDArray[float64],
        ids: NDArray[int32],
        calls: NDArray[int64],
        memory: NDArray[int64],
        left_out: NDArray[int64],
        /,
    ) -> tuple[int, int, int, int, int, bool] | None: ...
    def forget(self) -> None: ...
