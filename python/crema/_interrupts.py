"""Ctrl-C during training."""

from __future__ import annotations

import signal
from types import FrameType


class Deferred:
    """Keeps Ctrl-C in `seen` until `end`, instead of a KeyboardInterrupt in the code that runs.

    A second one raises KeyboardInterrupt. Has no effect where the program has a handler of its own,
    and outside of the main thread.
    """

    def __init__(self) -> None:
        self.seen = False
        self._exchange(signal.default_int_handler, self._handle)

    def end(self) -> bool:
        """Returns `seen`."""
        self._exchange(self._handle, signal.default_int_handler)
        return self.seen

    @staticmethod
    def _exchange(before: object, after: signal._HANDLER) -> None:
        if signal.getsignal(signal.SIGINT) == before:
            try:
                signal.signal(signal.SIGINT, after)
            except ValueError:
                pass  # not the main thread

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True
