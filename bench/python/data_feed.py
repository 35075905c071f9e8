"""GB/s of batches of 64 x 3 x 227 x 227 that Python feeds a net, beside memcpy.

PYTHONPATH=build/python python bench/python/data_feed.py: medians of 10 passes of each kind.
"""

import statistics
import time

import numpy as np

import crema
from crema.data import batches

SHAPE = (64, 3, 227, 227)
NET = 'layer { name: "d" type: "Input" top: "d" input_param { shape { %s } } %s }'


class Images:
    """A dataset whose samples cost nothing to make."""

    def __init__(self, dtype):
        self.images = np.zeros((8, *SHAPE[1:]), dtype)

    def __len__(self):
        return 64 * 64

    def __getitem__(self, i):
        return (self.images[i % 8],)


def rate(step, size):
    step()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return size / statistics.median(times) / 1e9


def main():
    dims = " ".join(f"dim: {size}" for size in SHAPE)
    print("| from | GB/s of f32 | GB/s of u8 into f32 | GB/s of u8 |\n|---|---|---|---|")
    columns = [(np.float32, ""), (np.uint8, ""), (np.uint8, "pipeline_param { output: U8 }")]
    kinds = {
        "an iterable": lambda dtype: [[np.zeros(SHAPE, dtype)] for _ in range(4)],
        "batches of arrays": lambda dtype: batches({0: np.zeros((256, *SHAPE[1:]), dtype)}, 64),
        "batches, 1 process": lambda dtype: batches(Images(dtype), 64),
        "batches, 2 workers": lambda dtype: batches(Images(dtype), 64, workers=2),
    }
    to = np.empty(SHAPE, np.float32)
    copies = [np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.uint8)]
    same = np.empty(SHAPE, np.uint8)
    print("| memcpy (numpy.copyto) | "
          f"{rate(lambda: np.copyto(to, copies[0]), to.nbytes):.1f} | "
          f"{rate(lambda: np.copyto(to, copies[1]), same.nbytes):.1f} | "
          f"{rate(lambda: np.copyto(same, copies[1]), same.nbytes):.1f} |")
    for name, make in kinds.items():
        row = []
        for dtype, more in columns:
            net = crema.Net.parse(NET % (dims, more), 1, data=make(dtype))
            row.append(rate(lambda: net.forward(0, 0), np.zeros(SHAPE, dtype).nbytes))
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in row) + " |")


if __name__ == "__main__":
    main()
