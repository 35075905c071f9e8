"""Data from Python for nets and solvers: `crema.Solver.open(path, data=...)`.

`data` and `test_data` of a solver, and `data` of a net, are one of these:

- an iterable of batches (a list, a PyTorch DataLoader, an object with `__iter__`): dicts that give an
  array for each top of the net, or tuples in the order of the tops. When it ends, it is started
  again; the end of an iterator that cannot be started again (a generator) is an error. A function
  without arguments that returns an iterable is called for each pass.
- a dataset of samples with `__len__` and `__getitem__`, such as PyTorch's Dataset: its samples are
  batched in order, with the batch size of the net.
- a dict of whole arrays, one sample in each element of axis 0: the same.
- `batches(...)`: a dataset that is shuffled, transformed, and loaded by worker processes.

Arrays are NumPy arrays, or what converts to them by `__array__` or DLPack. They are numbers of any
type that converts to that of the blob without changing its kind (integers to float32).
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._workers import Pool

__all__ = ["Batches", "batches"]

Array = NDArray[Any]
Arrays = dict[Any, Array]  # by name, or by position for samples that are tuples
Spec = list[tuple[Any, np.dtype[Any], tuple[int, ...]]]  # of one sample
Transform = Callable[[Any], Any]


def named(sample: object) -> Arrays:
    """Returns the arrays of a sample or a batch: a dict, a tuple, or one array."""
    if isinstance(sample, Mapping):
        return {key: as_array(value, key) for key, value in sample.items()}
    if isinstance(sample, (tuple, list)):
        return {i: as_array(value, i) for i, value in enumerate(sample)}
    return {0: as_array(sample, 0)}


def as_array(value: Any, key: object) -> Array:
    if not isinstance(value, np.ndarray):
        only_dlpack = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
        value = np.from_dlpack(value) if only_dlpack else np.asarray(value)
    if value.dtype.kind not in "biuf":
        raise TypeError(f"data: {key!r} has elements of type {value.dtype}; a net takes numbers")
    return value  # type: ignore[no-any-return]


def add_note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(note)


class Layout:
    """A batch in flat memory: an array for each key, with one sample in each element of axis 0."""

    def __init__(self, spec: Spec, batch_size: int) -> None:
        self.spec = spec
        self.batch_size = batch_size
        self.offsets = []
        self.bytes = 0
        for _, dtype, shape in spec:
            self.offsets.append(self.bytes)
            count = batch_size * int(np.prod(shape, dtype=np.int64))
            self.bytes += (count * dtype.itemsize + 4095) // 4096 * 4096

    @staticmethod
    def spec_of(sample: Arrays) -> Spec:
        return [(key, array.dtype, array.shape) for key, array in sample.items()]

    def arrays(self, memory: Any, start: int = 0) -> Arrays:
        """Returns the arrays of the batch that begins at byte `start` of the memory."""
        return {
            key: np.ndarray((self.batch_size, *shape), dtype, memory, start + offset)
            for (key, dtype, shape), offset in zip(self.spec, self.offsets)
        }


class Rows:
    """Whole arrays as a dataset: sample i is element i of each."""

    def __init__(self, arrays: Mapping[Any, object]) -> None:
        self.arrays = {key: as_array(value, key) for key, value in arrays.items()}
        lengths = {key: array.shape[0] if array.ndim else 0 for key, array in self.arrays.items()}
        if not lengths:
            raise ValueError("data: the dict has no arrays, and so no number of samples")
        if len(set(lengths.values())) != 1:
            raise ValueError(f"data: the arrays differ in their number of samples: {lengths}")
        self.count = next(iter(lengths.values()))

    def __getitem__(self, index: Any) -> Arrays:
        return {key: array[index] for key, array in self.arrays.items()}

    def __len__(self) -> int:
        return self.count


class Loader:
    """Loads samples of a dataset; in a worker, or in the process itself."""

    def __init__(self, dataset: Any, transform: Transform | None) -> None:
        self.dataset = dataset
        self.transform = transform

    def samples(self, indices: list[int]) -> Iterator[Arrays]:
        """Yields samples one by one. An exception says which one raised it."""
        index = None
        try:
            several = getattr(self.dataset, "__getitems__", None)  # PyTorch's name
            loaded = several(indices) if several else None
            for i, index in enumerate(indices):
                sample = self.dataset[index] if loaded is None else loaded[i]
                yield named(self.transform(sample) if self.transform else sample)
        except Exception as error:
            add_note(error, f"(raised for sample {index} of the dataset)")
            raise

    def fill(self, indices: list[int], to: Arrays) -> None:
        """Writes samples into the arrays of a batch."""
        for i, sample in enumerate(self.samples(indices)):
            check_keys(sample, to, indices[i])
            for key, array in sample.items():
                place = to[key]
                if array.shape != place.shape[1:] or array.dtype != place.dtype:
                    raise ValueError(
                        f"data: sample {indices[i]}: {key!r} is {array.dtype} {array.shape}, and the "
                        f"first sample has {place.dtype} {place.shape[1:]}; give all samples one "
                        "shape and type (transform=)"
                    )
                place[i] = array


def check_keys(sample: Arrays, expected: Mapping[Any, object], index: int) -> None:
    if sample.keys() != expected.keys():
        raise ValueError(
            f"data: sample {index} has {list(sample)}, and the first one has {list(expected)}"
        )


_random_states = threading.RLock()  # those of the process: feeds take turns


def _renew_lock() -> None:
    global _random_states
    _random_states = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def seeded(seed: int, batch: int) -> Iterator[None]:
    """Seeds random, numpy.random and torch (if imported) for a batch, and restores them after."""
    words = np.random.SeedSequence([seed, batch]).generate_state(8)
    with _random_states:
        torch = sys.modules.get("torch")
        before = random.getstate(), np.random.get_state()
        random.seed(words.tobytes())
        np.random.seed(words)
        if torch is not None:
            torch_before = torch.get_rng_state()
            torch.default_generator.manual_seed(int(words[0]))
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
            if torch is not None:
                torch.set_rng_state(torch_before)


class Batches:
    """Batches of the samples of a dataset. Made by `batches`, which describes it."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        workers: int = 0,
        transform: Transform | None = None,
        drop_last: bool = False,
        prefetch: int = 2,
    ) -> None:
        for name, value, least in [
            ("batch_size", batch_size, 1), ("seed", seed, 0),
            ("workers", workers, 0), ("prefetch", prefetch, 1),
        ]:
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise TypeError(f"{name} is {value!r}; give an integer")
            if not least <= value < 2**64:
                raise ValueError(f"{name} is {value}; give {least} or more")
        if isinstance(dataset, Mapping):
            dataset = Rows(dataset)
        self.dataset = dataset
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.seed = int(seed)
        self.workers = int(workers)
        self.transform = transform
        self.drop_last = drop_last
        self.prefetch = int(prefetch)
        self.indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        if not self.indexed and not isinstance(dataset, Iterable):
            raise TypeError(
                f"a {type(dataset).__name__} is no dataset: give an object with __len__ and "
                "__getitem__, an iterable of samples, or a dict of arrays"
            )
        if not self.indexed and (shuffle or workers):
            raise TypeError(
                "shuffle and workers need a dataset with __len__ and __getitem__, not only __iter__"
            )
        if self.indexed and len(self) == 0:
            raise ValueError(
                f"data: the dataset has {len(dataset)} samples, which is no batch of {batch_size}"
            )

    def __len__(self) -> int:
        """Returns the number of batches in one pass. Raises TypeError if it is unknown."""
        if not self.indexed:
            raise TypeError("an iterable of samples has no length")
        samples = len(self.dataset)
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches of the first pass: new arrays, in dicts or tuples like the samples."""
        source = BatchSource(self)
        try:
            stream = source.start(0, self.seed) if self.indexed else source.one_pass()
            for batch in itertools.islice(stream, len(self) if self.indexed else None):
                arrays = {key: array.copy() for key, array in batch.items()}
                by_position = all(isinstance(key, int) for key in arrays)
                yield tuple(arrays.values()) if by_position else arrays
        finally:
            source.close()

    def order(self, seed: int, epoch: int) -> Array:
        """Returns the indices of one pass, in order."""
        count = len(self.dataset)
        if not self.shuffle:
            return np.arange(count)
        # RandomState, since its numbers stay the same in all versions of NumPy.
        bits = np.random.MT19937(np.random.SeedSequence([seed, epoch]))
        return np.random.RandomState(bits).permutation(count)

    def indices_from(self, position: int, seed: int) -> Iterator[list[int]]:
        """Yields the indices of each batch from number `position` on, without end."""
        epoch, at = divmod(position, len(self))
        while True:
            order = self.order(seed, epoch)
            for batch in range(at, len(self)):
                yield order[batch * self.batch_size : (batch + 1) * self.batch_size].tolist()
            epoch, at = epoch + 1, 0


def batches(
    dataset: Any,
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int = 0,
    workers: int = 0,
    transform: Transform | None = None,
    drop_last: bool = False,
    prefetch: int = 2,
) -> Batches:
    """Collects the samples of a dataset into batches, for `data=` of a net or a solver.

    `dataset` has `__len__` and `__getitem__` (PyTorch's Dataset), or is a dict of whole arrays, or
    an iterable of samples. A sample is a dict of arrays, or a tuple in the order of the net's tops;
    all have the same shapes and types. `transform` is called with each sample and returns another.

    `shuffle` draws another order for each pass, from `seed` and the number of the pass. With
    `workers`, that many processes load whole batches into shared memory, `prefetch` batches ahead
    each; the order stays the same. They are started by "spawn", since a fork would copy the locks
    of running threads: dataset and transform must be importable (from a module, or from a script
    that starts its work under `if __name__ == "__main__"`).

    Before each batch, `random`, `numpy.random` and torch are seeded from `seed` and the number of
    the batch, so random transforms do not depend on the number of workers, and a run that is
    restored repeats them. `drop_last` leaves out a smaller last batch.

    Raises TypeError and ValueError for wrong arguments. Errors of the dataset are raised by the call
    that needs the batch; those of a worker have its traceback as their cause.
    """
    return Batches(
        dataset, batch_size, shuffle=shuffle, seed=seed, workers=workers, transform=transform,
        drop_last=drop_last, prefetch=prefetch,
    )


class Source:
    """Batches from a position on, for a feed. One thread at a time, except for `stopping`."""

    stopping = False  # set by another thread: `start` raises instead of waiting on
    seed = 0
    samples = 0  # in one pass; 0: unknown
    batches = 0  # the same

    def start(self, position: int, seed: int) -> Iterator[Arrays]:
        """Yields batches from that number on. The arrays hold until the next one is taken."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends processes."""


class BatchSource(Source):
    """The source of Batches."""

    def __init__(self, of: Batches) -> None:
        self.of = of
        self.seed = of.seed
        self.pool: Pool | None = None
        self.loader = Loader(of.dataset, of.transform)
        if of.indexed:
            self.batches = len(of)
            self.samples = len(of) * of.batch_size if of.drop_last else len(of.dataset)

    def start(self, position: int, seed: int) -> Iterator[Arrays]:
        of = self.of
        if not of.indexed:
            return self._passes(position)
        if of.workers:
            return self._from_workers(position, seed)
        if isinstance(of.dataset, Rows) and of.transform is None:
            return self._rows(of.dataset, position, seed)
        return self._local(position, seed)

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    def _from_workers(self, position: int, seed: int) -> Iterator[Arrays]:
        from ._workers import Pool

        if self.pool is None or not self.pool.is_ours():
            self.pool = Pool(self)
        return self.pool.start(position, seed)

    def _rows(self, rows: Rows, position: int, seed: int) -> Iterator[Arrays]:
        out: Arrays = {}
        for indices in self.of.indices_from(position, seed):
            if not self.of.shuffle:
                yield rows[indices[0] : indices[-1] + 1]
                continue
            if not out:
                out = {k: np.empty((self.of.batch_size, *a.shape[1:]), a.dtype)
                       for k, a in rows.arrays.items()}
            for key, array in rows.arrays.items():  # "clip": without a buffer of its own
                np.take(array, indices, 0, out[key][: len(indices)], "clip")
            yield {key: array[: len(indices)] for key, array in out.items()}

    def _local(self, position: int, seed: int) -> Iterator[Arrays]:
        out: Arrays = {}
        for number, indices in enumerate(self.of.indices_from(position, seed), position):
            with seeded(seed, number):
                if not out:
                    spec = Layout.spec_of(next(self.loader.samples(indices[:1])))
                    layout = Layout(spec, self.of.batch_size)
                    out = layout.arrays(np.empty(layout.bytes, np.uint8))
            with seeded(seed, number):
                self.loader.fill(indices, out)
            yield {key: array[: len(indices)] for key, array in out.items()}

    def _passes(self, position: int) -> Iterator[Arrays]:
        for _ in itertools.count():
            empty = True
            for batch in self.one_pass():
                empty = False
                if position > 0:
                    position -= 1
                else:
                    yield batch
            if empty:
                raise ValueError("data: the iterable of samples is empty")

    def one_pass(self) -> Iterator[Arrays]:
        transform = self.of.transform or (lambda sample: sample)
        samples = (named(transform(sample)) for sample in self.of.dataset)
        while group := list(itertools.islice(samples, self.of.batch_size)):
            if self.of.drop_last and len(group) < self.of.batch_size:
                return
            layout = Layout(Layout.spec_of(group[0]), len(group))
            out = layout.arrays(np.empty(layout.bytes, np.uint8))
            Loader(group, None).fill(list(range(len(group))), out)
            yield out


class IterableSource(Source):
    """The source of an iterable of batches, or of a function that returns one."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.once = isinstance(data, Iterator)
        self.taken = 0  # of an iterator
        try:
            self.batches = len(data)
        except TypeError:
            self.batches = 0
        self.samples = self._samples()

    def _samples(self) -> int:
        """Returns what a PyTorch DataLoader tells."""
        size = getattr(self.data, "batch_size", None)
        dataset: Any = getattr(self.data, "dataset", None)
        if not isinstance(size, int) or not hasattr(dataset, "__len__") or not self.batches:
            return 0
        if -(-len(dataset) // size) == self.batches:
            return len(dataset)
        return self.batches * size if len(dataset) // size == self.batches else 0

    def start(self, position: int, seed: int) -> Iterator[Arrays]:
        return self._rest(position) if self.once else self._passes(position)

    def _rest(self, position: int) -> Iterator[Arrays]:
        from ._errors import Error

        if position < self.taken:
            raise Error(
                f"data: batch {position} of an iterator is needed again, and {self.taken} batches "
                "were taken; give an iterable that can be started again, or a function that "
                "returns one",
                "unsupported",
            )
        for batch in self.data:
            self.taken += 1
            if self.taken > position:
                yield named(batch)
        raise Error(
            f"data: the iterator ended after {self.taken} batches; give an iterable that can be "
            "started again (a list, a DataLoader, crema.data.batches), or a function that "
            "returns one",
            "not_found",
        )

    def _passes(self, position: int) -> Iterator[Arrays]:
        epoch = 0
        set_epoch = getattr(self.data, "set_epoch", None)
        can_jump = set_epoch is not None or isinstance(self.data, (list, tuple))
        if can_jump and self.batches:
            epoch, position = divmod(position, self.batches)
        while True:
            if set_epoch is not None:
                set_epoch(epoch)
            empty = True
            for batch in self.data if isinstance(self.data, Iterable) else self.data():
                empty = False
                if position > 0:
                    position -= 1
                else:
                    yield named(batch)
            if empty:
                raise ValueError("data: the iterable has no batches")
            epoch += 1


def source_of(data: Any, batch_size: int) -> Source:
    """Returns the source of `data=`. `batch_size` is that of the net; 0: unknown."""
    if isinstance(data, Batches):
        return BatchSource(data)
    indexed = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    # PyTorch's IterableDataset gives samples.
    samples = any(base.__name__ == "IterableDataset" for base in type(data).__mro__)
    indexed = indexed and not isinstance(data, (list, tuple, str, bytes))
    if samples or indexed or isinstance(data, Mapping):
        if not batch_size:
            raise ValueError(
                "data: the net gives no batch size for this dataset; use crema.data.batches"
            )
        return BatchSource(Batches(data, batch_size))
    if isinstance(data, (str, bytes)) or not (isinstance(data, Iterable) or callable(data)):
        raise TypeError(
            f"data is a {type(data).__name__}; give an iterable of batches, a dataset, a dict of "
            "arrays, or crema.data.batches(...)"
        )
    return IterableSource(data)
