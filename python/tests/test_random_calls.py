"""Random sequences of calls, in processes of their own: each must end by itself."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent("""
    import random, sys
    import numpy as np
    import crema
    sys.path.insert(0, sys.argv[1])
    from conftest import NET, TRAIN_NET

    SOLVER = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 5 snapshot_after_train: false '
    first = int(sys.argv[2])
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        nets, blobs, arrays, solvers = [], [], [], []
        def open_net():
            nets.append(crema.Net.parse(NET, rng.randrange(2), seed=rng.randrange(1, 9)))
        def open_solver():
            solvers.append(crema.Solver.parse(SOLVER + "net_param {" + TRAIN_NET + "}"))
            nets.append(solvers[-1].net)
        def net(): return rng.choice(nets)
        def number(): return rng.choice([-1, 0, 1, 2, 3, 4, 10**6, 2**40, "x", None, 1.5])
        def blob(): return rng.choice(blobs or net().blob_list())
        def write():
            array = rng.choice(arrays or [blob().data])
            array[...] = rng.choice([0, 1, np.nan, np.inf, -1e38])
        calls = [
            open_net,
            open_solver,
            lambda: nets.pop(rng.randrange(len(nets))),
            lambda: blobs.extend(net().blob_list()),
            lambda: blobs.extend(net().layer_list()[1].blobs),
            lambda: arrays.append(blob().data),
            lambda: arrays.append(blob().diff),
            write, write, write,
            lambda: blob().reshape(number(), number()),
            lambda: blob().reshape(*[rng.randrange(1, 9) for _ in range(rng.randrange(4))]),
            lambda: net().reshape(),
            lambda: net().forward(number(), number()),
            lambda: net().forward(0, len(net().layer_names) - 1),
            lambda: net().backward(len(net().layer_names) - 1, 0),
            lambda: net().backward(number(), number()),
            lambda: net().share_with(net()),
            lambda: net().clear_parameter_gradients(),
            lambda: net().add_callback(rng.choice(["before_forward", "after_backward"]),
                                       rng.choice([lambda layer: 1 / 0, lambda: None, 3,
                                                   lambda layer: net().forward(0, 0)])),
            lambda: rng.choice(solvers).step(rng.choice([-1, 0, 1, "x", None])),
            lambda: rng.choice(solvers).step(2),
            lambda: rng.choice(solvers).update(),
            lambda: rng.choice(solvers).add_callback(rng.choice(["start", "gradients"]),
                                                     lambda: rng.choice(nets).reshape()),
            lambda: solvers.clear(),
            lambda: arrays.clear(),
        ]
        for _ in range(40):
            try:
                rng.choice(calls)()
            except Exception:
                pass
    print("ended")
""")


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_random_calls_leave_the_process_alive(first):
    import os

    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, here, str(first)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "ended"
