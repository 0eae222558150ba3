"""The thread beside the training one: it is woken, it is ended, and a forked child waits for none."""

import os
import threading

from diagnose.probes.side_thread import SideThread


def test_it_hears_that_it_is_woken_and_ends_when_it_is_stopped() -> None:
    heard, over = threading.Event(), threading.Event()

    def run(thread: SideThread) -> None:
        while not over.is_set():
            if thread.wait(60):
                heard.set()

    thread = SideThread(run)
    thread.wake()
    thread.wake()  # that the first is not heard yet harms nobody
    assert heard.wait(60)
    over.set()

    assert thread.stop(within_s=60)


def test_who_stops_it_waits_no_longer_than_asked_and_it_is_no_thread_of_the_job() -> None:
    hangs, known = threading.Event(), threading.enumerate()
    thread = SideThread(lambda _: hangs.wait(30))

    assert threading.enumerate() == known
    assert not thread.stop(within_s=0.05)
    hangs.set()


def test_a_forked_child_has_no_such_thread_and_waits_for_none() -> None:
    hangs = threading.Event()
    thread = SideThread(lambda _: hangs.wait(30))

    child = os.fork()
    if not child:
        os._exit(0 if thread.stop(within_s=3600) else 1)
    _, status = os.waitpid(child, 0)
    hangs.set()

    assert status == 0
