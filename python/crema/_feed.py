"""The data of one net: what _core calls for each batch."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ._core import DataTurn
from .data import Array, Arrays, Source, source_of

Shape = tuple[int, ...]


class Pump:
    """Takes batches of a source in a thread, one ahead: the next batch is made while the net runs.

    The source goes on when a batch was released, so that it may use its arrays again.
    """

    def __init__(self, source: Source, position: int, seed: int, turn: DataTurn) -> None:
        self.source = source
        self.turn = turn
        self.position = position  # of the batch that get returns
        self.seed = seed
        self.process = os.getpid()
        self.changed = threading.Condition()
        self.batch: Arrays | None = None
        self.error: BaseException | None = None
        self.failed = False
        self.closed = False
        self.thread = threading.Thread(target=self._run, name="crema data", daemon=True)
        self.thread.start()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Raises crema.Error instead of a wait for data that wait for this thread."""
        before = self.turn.begin_wait()
        try:
            yield
        finally:
            self.turn.end_wait(before)

    def _run(self) -> None:
        batches = None
        self.turn.enter()
        try:
            batches = iter(self.source.start(self.position, self.seed))
            while self._offer(next(batches)):
                pass
        except BaseException as error:
            with self.changed:
                self.error = error
                self.changed.notify_all()
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                try:
                    close()
                except Exception:
                    pass  # of a worker that has ended
            del batches
            self.turn.leave()

    def _offer(self, batch: Arrays) -> bool:
        """Returns true when the batch was released, and false if the pump was closed."""
        with self.changed:
            self.batch = batch
            self.changed.notify_all()
            while self.batch is not None and not self.closed:
                self.changed.wait()
            return not self.closed

    def get(self) -> Arrays:
        """Waits for the batch. Raises what the source raises. Has no effect, so may be repeated."""
        with self.changed:
            if self.batch is None and self.error is None:
                with self._waiting():
                    while self.batch is None and self.error is None:
                        self.changed.wait()
            if self.batch is not None:
                return self.batch
            self.failed = True
            error, self.error = self.error, None  # its traceback refers to the feed
            assert error is not None
        try:
            raise error
        finally:
            del error

    def release(self) -> None:
        with self.changed:
            self.position += 1
            self.batch = None
            self.changed.notify_all()

    def serves(self, position: int, seed: int) -> bool:
        same = (self.position, self.seed, self.process) == (position, seed, os.getpid())
        return same and not self.failed

    def close(self, timeout: float | None = None) -> None:
        if self.process != os.getpid():
            return  # a forked process has no such thread, and its workers belong to the other one
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        if self.thread is threading.current_thread():
            return
        with contextlib.nullcontext() if timeout else self._waiting():
            self.thread.join(timeout)

    def end(self) -> None:
        """Closes pump and source."""
        if self.process == os.getpid():
            self.source.stopping = True
            self.close(timeout=5)
            self.source.close()


class Feed:
    """Reads data into the tops of a net."""

    def __init__(
        self,
        data: Any,
        layers: Sequence[tuple[str, list[str], list[Shape], int]],
        turn: DataTurn,
    ) -> None:
        """`layers`: the layers that data may replace: name, tops, shapes of the tops, batch size."""
        self.turn = turn
        self.source = source_of(data, layers[0][3] if layers else 0)
        self.seed = self.source.seed
        self._start(0, self.seed)
        try:
            first = self.pump.get()
            self._match(first, layers)
            for (top, shape), key in zip(self.tops, self.keys):
                self._check(top, first[key], shape)
        except BaseException:
            self._end()
            raise
        batch = self.tops[0][1][:1]
        whole = first[self.keys[0]].shape[:1] == batch
        # Samples of a pass: as a solver counts whole batches, and as a test counts samples.
        self.train_epoch = self.source.batches * (batch[0] if batch else 1)
        self.samples = self.source.samples if whole else 0

    def _start(self, position: int, seed: int) -> None:
        self.pump = Pump(self.source, position, seed, self.turn)
        self._end = weakref.finalize(self, self.pump.end)

    def _match(
        self, batch: Arrays, layers: Sequence[tuple[str, list[str], list[Shape], int]]
    ) -> None:
        """Finds the layers that give what the batch gives."""
        tops = [top for layer in layers for top in layer[1]]
        if not tops:
            raise ValueError("data: the net has no Input or data layer in this phase to feed")
        names = dict(zip(batch, batch))
        if all(isinstance(key, int) for key in batch):
            if len(batch) != len(tops):
                raise ValueError(
                    f"data: a batch is a tuple of {len(batch)} arrays, and the net has the tops "
                    f"{', '.join(tops)}; give one array for each, or dicts"
                )
            names = dict(zip(tops, batch))
        for key in names:
            if key not in tops:
                raise ValueError(
                    f"data: the key {key!r} is no top of an Input or data layer of the net, which "
                    f"has {', '.join(tops)}; leave it out"
                )
        self.layers: list[int] = []
        self.tops: list[tuple[str, Shape]] = []
        self.keys: list[Any] = []
        for index, (layer, of_layer, shapes, _) in enumerate(layers):
            if not any(top in names for top in of_layer):
                continue
            self.layers.append(index)
            for i, top in enumerate(of_layer):
                if top not in names:
                    raise ValueError(
                        f'data: the key {top!r} is missing; layer "{layer}" has the tops '
                        f"{', '.join(of_layer)}, and a batch has {', '.join(map(str, names))}"
                    )
                self.keys.append(names[top])
                self.tops.append((top, shapes[i] if shapes else batch[names[top]].shape))

    def fill(self, position: int, seed: int, to: list[Array]) -> tuple[list[Shape], float]:
        """Copies batch `position` of the order of `seed` into the arrays of the tops.

        Returns the shapes of the batch, and the seconds for which it waited.
        """
        start = time.perf_counter()
        if not self.pump.serves(position, seed):
            self.pump.close()
            self._end.detach()
            self._start(position, seed)
        batch = self.pump.get()
        waited = time.perf_counter() - start
        shapes = []
        if len(batch) != len(self.keys) or any(key not in batch for key in self.keys):
            raise ValueError(
                f"data: batch {position} has {list(batch)}, and the first one has {self.keys}"
            )
        for (top, _), key, array in zip(self.tops, self.keys, to):
            given = batch[key]
            self._check(f"batch {position}: {top}", given, array.shape)
            if not np.can_cast(given.dtype, array.dtype, "same_kind"):
                raise TypeError(
                    f"data: batch {position}: {top} is {given.dtype}, and the net has {array.dtype}"
                )
            np.copyto(array[: len(given)] if array.ndim else array, given, casting="same_kind")
            shapes.append(given.shape)
        return shapes, waited

    def release(self, position: int) -> None:
        """Lets the source go on to batch `position`. Has no effect if it did."""
        if self.pump.position == position - 1:
            self.pump.release()

    @staticmethod
    def _check(name: str, given: Array, expected: Shape) -> None:
        fits = given.ndim == len(expected) and given.shape[1:] == expected[1:]
        if fits and (not expected or 0 < given.shape[0] <= expected[0]):
            return
        most = ", or fewer along axis 0" if expected else ""
        raise ValueError(f"data: {name} is {given.shape}, and the net has {expected}{most}")
