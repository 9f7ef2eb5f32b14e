"""A reader's code may loop for ever; then it is stopped where it is."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class EndlessError(Exception):
    """It took too long."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Interrupts the main thread, as Ctrl-C would; works in notebooks and on every system."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late, main = threading.Event(), threading.get_ident()

    def interrupt() -> None:
        late.set()
        if hasattr(signal, "pthread_kill"):  # which also ends a read that waits
            signal.pthread_kill(main, signal.SIGINT)
        else:
            _thread.interrupt_main()

    # Whatever runs in a shell's background is born deaf to Ctrl-C.
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
