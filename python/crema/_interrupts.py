"""Ctrl-C during training."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Deferred:
    """Keeps the first KeyboardInterrupt of Ctrl-C in `seen` until `end`, so that it does not end
    code of the user. The second is raised. Has no effect outside of the main thread.

    `outer` is the one of a run whose callback or layer makes this call: both have seen the same.
    """

    def __init__(self) -> None:
        self.before = signal.getsignal(signal.SIGINT)
        owner = getattr(self.before, "__self__", None)
        is_main = threading.current_thread() is threading.main_thread()
        self.outer = owner if is_main and isinstance(owner, Deferred) else None
        self.seen: bool = self.outer is not None and self.outer.seen
        if callable(self.before):
            self._set(self._handle)

    def end(self) -> bool:
        """Returns `seen`."""
        try:
            self._restore()
        except KeyboardInterrupt:  # the second, right now
            self._restore()
        return self.seen

    def _restore(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._handle:
            self._set(self.before)

    @staticmethod
    def _set(handler: Any) -> None:
        try:
            signal.signal(signal.SIGINT, handler)
        except ValueError:
            pass  # not the main thread

    def _handle(self, number: int, frame: FrameType | None) -> None:
        assert callable(self.before)
        try:
            self.before(number, frame)
        except KeyboardInterrupt:
            if self.seen:
                raise
            self.seen = True
        else:
            self.seen = self.seen or (self.outer is not None and self.outer.seen)
