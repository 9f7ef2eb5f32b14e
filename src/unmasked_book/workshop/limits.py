"""Stops a reader's code that loops for ever, after some seconds."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class EndlessError(Exception):
    """An EndlessError says after how many seconds a reader's code was stopped."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Interrupts a `with` block in the main thread after so many seconds, by an EndlessError."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late, main = threading.Event(), threading.get_ident()

    def interrupt() -> None:
        late.set()
        if hasattr(signal, "pthread_kill"):  # this also ends a read that waits
            signal.pthread_kill(main, signal.SIGINT)
        else:
            _thread.interrupt_main()

    # A process in a shell's background starts with a handler that ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt as error:
        if not late.is_set():
            raise
        raise EndlessError(f"{seconds:.0f} seconds").with_traceback(error.__traceback__) from None
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
