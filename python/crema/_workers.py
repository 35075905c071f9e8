"""Processes that load batches into shared memory.

Batch n is loaded by worker n % workers into place n % places of the memory, so that results come in
order. The memory has no name (memfd): nothing is left when processes are killed, and the size of
/dev/shm does not limit it.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import weakref
from collections.abc import Iterator
from multiprocessing import connection, reduction, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from ._errors import Error
from .data import Arrays, Layout, Loader, add_note, seeded

if TYPE_CHECKING:
    from .data import BatchSource

POLL_SECONDS = 0.2
STARTED: weakref.WeakSet[Any] = weakref.WeakSet()  # processes


def forget_processes() -> None:
    # The end of a forked process would otherwise end the workers of its parent.
    getattr(multiprocessing.process, "_children", set()).difference_update(STARTED)


os.register_at_fork(after_in_child=forget_processes)


class WorkerTraceback(Exception):
    """The traceback of a worker, as the cause of the exception that it raised."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Pool:
    """Worker processes and their memory. Thread safety: one thread at a time."""

    def __init__(self, source: BatchSource) -> None:
        self.source = source
        self.of = source.of
        self.process = os.getpid()
        self.places = self.of.workers * self.of.prefetch
        self.processes: list[Any] = []
        self.pipes: list[Connection] = []
        self.layout: Layout | None = None
        self.memory: mmap.mmap | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        # Ctrl-C is for this process alone: workers inherit the blocked signal, then ignore it. The
        # first worker would start this tracker, which unblocks it.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            for number in range(self.of.workers):
                ours, theirs = context.Pipe()
                self.pipes.append(ours)
                process = context.Process(
                    target=work, args=(theirs,), daemon=True, name=f"crema data {number}"
                )
                process.start()
                self.processes.append(process)
                STARTED.add(process)
                theirs.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        loader = self.source.loader
        for number in range(self.of.workers):
            try:
                pickled = ForkingPickler.dumps((loader.dataset, loader.transform))
            except Exception as error:
                raise TypeError(
                    f"data: workers need a dataset and a transform that can be pickled ({error}); "
                    "define them in a module, or use workers=0"
                ) from error
            self._send(number, bytes(pickled))

    def _make_memory(self, first: int) -> Layout:
        self._send(0, ("spec", first, self.source.seed))
        self.layout = layout = Layout(self._receive(0), self.of.batch_size)
        size = layout.bytes * self.places
        fd = os.memfd_create("crema data", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, max(size, mmap.PAGESIZE))
            self.memory = mmap.mmap(fd, max(size, mmap.PAGESIZE))
            for number, process in enumerate(self.processes):
                self._send(number, ("memory", layout, max(size, mmap.PAGESIZE)))
                reduction.send_handle(self.pipes[number], fd, process.pid)
        finally:
            os.close(fd)
        return layout

    def start(self, position: int, seed: int) -> Iterator[Arrays]:
        """Yields batches from that number on, without end."""
        tasks = enumerate(self.of.indices_from(position, seed), position)
        waiting = 0  # batches that were requested and not received
        try:
            layout = self.layout or self._make_memory(next(self.of.indices_from(position, seed))[0])
            counts = {}
            for number in itertools.count(position):
                for asked, indices in itertools.islice(tasks, self.places - waiting):
                    place = asked % self.places * layout.bytes
                    counts[asked] = len(indices)
                    self._send(asked % self.of.workers, ("batch", place, asked, seed, indices))
                    waiting += 1
                self._receive(number % self.of.workers)
                waiting -= 1
                batch = layout.arrays(self.memory, number % self.places * layout.bytes)
                count = counts.pop(number)
                yield {key: array[:count] for key, array in batch.items()}
        except GeneratorExit:
            try:
                for asked in range(number + 1, number + 1 + waiting):
                    self._receive(asked % self.of.workers, discard=True)
            except Exception:
                self.source.close()
            raise
        except BaseException:
            self.source.close()  # the next start begins with other workers
            raise

    def _send(self, number: int, message: Any) -> None:
        """Sends to a worker. If it has died, _receive says so when its next answer is due."""
        with contextlib.suppress(OSError):
            if isinstance(message, bytes):
                self.pipes[number].send_bytes(message)
            else:
                self.pipes[number].send(message)

    def _receive(self, number: int, discard: bool = False) -> Any:
        """Returns the answer of a worker. Raises the exception that it raised."""
        pipe, process = self.pipes[number], self.processes[number]
        # A process that the worker has forked keeps the pipe open, and the sentinel.
        while not connection.wait([pipe, process.sentinel], POLL_SECONDS):
            if self.source.stopping:
                raise RuntimeError("data: the net is gone")
            if process.exitcode is not None:
                break
        try:
            if not pipe.poll():
                raise EOFError
            answer = pipe.recv()
        except (EOFError, OSError):
            raise self._death(number) from None
        if not isinstance(answer, Failure) or discard:
            return answer
        raise answer.exception from WorkerTraceback(answer.text)

    def _death(self, number: int) -> Exception:
        process = self.processes[number]
        process.join(1)
        code = process.exitcode
        how = f"ended with exit status {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        hint = ""
        if code == -signal.SIGKILL:
            hint = "; the system kills processes when it runs out of memory"
        elif self.layout is None:
            hint = (
                '; a script that uses workers must start its work under `if __name__ == "__main__"`'
            )
        return Error(f"data: worker {number} (process {process.pid}) {how}{hint}", "io_failure")

    def is_ours(self) -> bool:
        """Returns false in a process that was forked since."""
        return self.process == os.getpid()

    def close(self) -> None:
        """Ends the processes."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(POLL_SECONDS)
            if process.is_alive():
                process.terminate()
                process.join(1)
            if process.is_alive():
                process.kill()
            process.join()  # not closed: at the end of Python, multiprocessing may be joining it too
        self.processes, self.pipes, self.memory = [], [], None
        if self.source.pool is self:
            self.source.pool = None


class Failure:
    """An exception of a worker, in a form that can always be sent."""

    def __init__(self, error: BaseException) -> None:
        self.text = "".join(traceback.format_exception(error))
        self.pickled = b""
        try:
            self.pickled = pickle.dumps(error)
            pickle.loads(self.pickled)
        except Exception:
            self.pickled = b""
        self.summary = f"{type(error).__name__}: {error}"

    @property
    def exception(self) -> BaseException:
        with contextlib.suppress(Exception):  # it may load only where it was raised
            error: BaseException = pickle.loads(self.pickled)
            return error
        return RuntimeError(self.summary)


def work(pipe: Connection) -> None:
    """Runs a worker until the other end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        serve(pipe)
    except (EOFError, OSError):
        pass  # the process that needs the batches is gone


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # also out of a sample that takes long


def serve(pipe: Connection) -> None:
    layout, memory = None, None
    pickled = pipe.recv_bytes()
    try:
        loader: Loader | Failure = Loader(*pickle.loads(pickled))
    except BaseException as error:
        add_note(
            error,
            "(raised in a worker of crema.data.batches as it received the dataset: dataset and "
            "transform must be importable from a module)",
        )
        loader = Failure(error)
    while True:
        message = pipe.recv()
        if message[0] == "memory":
            layout, size = message[1:]
            fd = reduction.recv_handle(pipe)
            memory = mmap.mmap(fd, size)
            os.close(fd)
            continue
        if isinstance(loader, Failure):
            pipe.send(loader)
            continue
        try:
            if message[0] == "spec":
                with seeded(message[2], 0):
                    answer: Any = Layout.spec_of(next(loader.samples([message[1]])))
            else:
                place, number, seed, indices = message[1:]
                assert layout is not None and memory is not None
                with seeded(seed, number):
                    loader.fill(indices, layout.arrays(memory, place))
                answer = None
        except Exception as error:
            answer = Failure(error)
        pipe.send(answer)
