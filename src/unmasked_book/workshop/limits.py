"""A reader's code may loop for ever; then it is stopped where it is."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class EndlessError(BaseException):
    """It took too long. No `except Exception` of the reader's catches it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """An alarm rings after so long, which also ends a read that waits; Windows has none."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_: object) -> None:
        raise EndlessError(f"{seconds:.0f} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
