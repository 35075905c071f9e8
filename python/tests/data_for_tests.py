"""Datasets of test_data.py: worker processes import them."""

import atexit
import os
import random
import signal
import sys
import threading
import time

import numpy as np


class Numbers:
    """Sample i: four numbers that follow from i, and a class."""

    def __init__(self, count=20):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if not 0 <= i < self.count:
            raise IndexError(i)
        return {"data": np.sin(np.arange(4, dtype=np.float32) + i), "label": i % 3}


class Broken(Numbers):
    def __getitem__(self, i):
        if i == 13:
            raise LookupError("thirteen")
        return super().__getitem__(i)


class Deadly(Numbers):
    def __getitem__(self, i):
        if i == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


class Exits(Numbers):
    """Ends its process, or lets it end only when it is killed."""

    def __init__(self, how, folder):
        super().__init__()
        self.how = how
        self.folder = folder

    def __getitem__(self, i):
        if self.how == "hangs at exit" and not hasattr(self, "set"):
            self.set = signal.signal(signal.SIGTERM, signal.SIG_IGN)
            atexit.register(threading.Event().wait)
        if i == 13:
            if self.how == "_exit":
                os._exit(0)
            if self.how == "exit":
                sys.exit(3)
            if self.how == "forks" and os.fork() == 0:
                self.hold_the_pipe()
            if self.how == "forks":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "raises what loads there alone":
                raise OnlyInWorkers
        return super().__getitem__(i)

    def hold_the_pipe(self):
        """Has the pipe of the worker until the test goes on."""
        for _ in range(400):
            if os.path.exists(os.path.join(self.folder, "raised")):
                os._exit(0)
            time.sleep(0.05)
        open(os.path.join(self.folder, "waited in vain"), "w").close()
        os._exit(1)


class OnlyInWorkers(LookupError):
    def __reduce__(self):
        return type(self)._load, ()

    @staticmethod
    def _load():
        if not Uneven.in_worker():
            raise ImportError("not here")
        return OnlyInWorkers()


class Uneven(Numbers):
    """Its first batch is loaded after the second one."""

    def __init__(self, folder):
        super().__init__()
        self.flag = os.path.join(folder, "second")

    def __getitem__(self, i):
        if i == 4:
            open(self.flag, "w").close()
        while i == 1 and not os.path.exists(self.flag) and self.in_worker():
            os.sched_yield()
        return super().__getitem__(i)

    @staticmethod
    def in_worker():
        import multiprocessing

        return multiprocessing.parent_process() is not None


class Reports(Numbers):
    """Writes the process that loads each sample to a file."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def __getitem__(self, i):
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")
        return super().__getitem__(i)


class Unequal(Numbers):
    def __getitem__(self, i):
        sample = super().__getitem__(i)
        return {**sample, "data": sample["data"][: 3 if i == 6 else 4]}


def jitter(sample):
    return {**sample, "data": sample["data"] + np.float32(np.random.rand() + random.random())}


def as_tuple(sample):
    return sample["data"], sample["label"]
