"""Stops a reader's code that loops for ever, after some seconds, or that ends Python."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import torch

DEPTH = 5000  # calls inside each other


class EndlessError(Exception):
    """An EndlessError says after how many seconds a reader's code was stopped."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Interrupts a `with` block in the main thread after so many seconds, by an EndlessError."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late, over, main = threading.Event(), threading.Event(), threading.get_ident()

    def interrupt() -> None:
        wait = seconds
        while not over.wait(wait):  # again, where a bare `except:` has caught it
            late.set()
            if hasattr(signal, "pthread_kill"):  # this also ends a read that waits
                signal.pthread_kill(main, signal.SIGINT)
            else:
                _thread.interrupt_main()
            wait = 0.2

    # A process in a shell's background starts with a handler that ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    leave, os._exit = os._exit, forbidden
    depth = sys.getrecursionlimit()
    sys.setrecursionlimit(min(depth, DEPTH))
    try:
        yield
    except KeyboardInterrupt as error:
        if not late.is_set():
            raise
        raise EndlessError(f"{seconds:.0f} seconds").with_traceback(error.__traceback__) from None
    finally:
        over.set()
        os._exit = leave
        sys.setrecursionlimit(depth)
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets PyTorch use one thread: on a busy machine two wait for each other at every step."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def forbidden(status: int) -> NoReturn:
    """Replaces os._exit, which would end a notebook or a shell without a word."""
    raise SystemExit(status)
