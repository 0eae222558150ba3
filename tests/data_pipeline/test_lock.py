"""What of the processor loading takes beside another thread."""

import hashlib
import threading
import time

from diagnose.probes.pipeline.measurement import beside_others

TEXT = bytes(4 << 20)


def test_threads_that_compute_for_the_loading_count_as_loading() -> None:
    """A fast tokenizer does so: the thread that asks for the batch waits meanwhile."""
    spent = []

    def hashes() -> None:
        began = time.thread_time_ns()
        hashlib.sha256(TEXT).digest()
        spent.append(time.thread_time_ns() - began)

    def load() -> None:
        thread = threading.Thread(target=hashes)
        thread.start()
        thread.join()

    lock = beside_others(load, 0.05)

    assert lock["in_python"]["loading_ns"] + lock["without_lock"]["loading_ns"] >= 0.9 * sum(spent)
