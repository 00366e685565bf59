"""Ctrl-C handling: the first Ctrl-C ends training after an update, the second one at once."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

EXIT_CODE = 130  # exit code that shells expect of a process stopped by Ctrl-C


class Interrupt:
    """Context in which the first Ctrl-C sets `asked`, and the second one ends the process.

    A signal handler would run only after the compiled update, because Python runs handlers between
    bytecodes. Therefore a thread reads signals from Python's wake-up socket
    (`signal.set_wakeup_fd`). Without delay, the thread prints a message at the first Ctrl-C, and
    ends the process at the second.
    """

    def __init__(self, promise: str, last: Callable[[], object] = lambda: None) -> None:
        """Store the text that the first Ctrl-C prints, and the function that the second calls."""
        self.asked = False
        self._promise, self._last = promise, last
        # Only the main thread can set signal handlers; in other threads, do nothing.
        self._active = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "Interrupt":
        if self._active:
            self._reader, self._writer = socket.socketpair()
            self._writer.setblocking(False)
            self._old_handler = signal.signal(signal.SIGINT, lambda *_: None)
            self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._listen, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._active:
            signal.set_wakeup_fd(self._old_fd)
            signal.signal(signal.SIGINT, self._old_handler)
            self._writer.close()  # ends the thread's loop
            self._thread.join()
            self._reader.close()

    def _listen(self) -> None:
        while received := self._reader.recv(1):
            if received[0] != signal.SIGINT:
                continue
            if self.asked:
                self._last()
                os._exit(EXIT_CODE)
            self.asked = True
            print(f"\n{self._promise}", file=sys.stderr, flush=True)
