"""Threads, forks and exits that must not hang; each in a process of its own, with a limit."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

START = """
    import os, signal, sys, threading
    import numpy as np
    import crema
    sys.path.insert(0, sys.argv[1])
    from conftest import NET, TRAIN_NET

    def start(function, *arguments):
        thread = threading.Thread(target=function, args=arguments)
        thread.start()
        return thread
"""


def run(program, *arguments):
    here = os.path.dirname(__file__)
    text = textwrap.dedent(START) + textwrap.dedent(program) + "\nprint('ended')\n"
    done = subprocess.run(
        [sys.executable, "-c", text, here, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["ended"]


def test_two_nets_share_with_each_other_in_two_threads():
    run("""
        for turn in range(20):
            a, b = crema.Net.parse(NET, 0), crema.Net.parse(NET, 0)
            inside, leave = threading.Event(), threading.Event()
            def wait(layer):
                inside.set()
                leave.wait()
            b.add_callback("before_forward", wait)
            threads = [start(b.forward, 0, 0)]
            inside.wait()
            pairs = [(a, b), (b, a)]
            for one, other in pairs if turn % 2 else reversed(pairs):
                threads.append(start(one.share_with, other))
                threads[-1].join(0.02)  # most times it waits for b then
            leave.set()
            for thread in threads:
                thread.join()
    """)


def test_nets_whose_callbacks_run_each_other_are_an_error_and_no_deadlock():
    run("""
        a, b = crema.Net.parse(NET, 0), crema.Net.parse(NET, 0)
        both = threading.Barrier(2)
        errors = []
        def run_other(own, other):
            calls = []
            def callback(layer):
                calls.append(layer)
                if len(calls) == 1:
                    both.wait()
                    other.forward(0, 0)
            own.add_callback("before_forward", callback)
        run_other(a, b)
        run_other(b, a)
        def forward(net):
            try:
                net.forward(0, 0)
            except crema.Error as error:
                errors.append(error)
        threads = [start(forward, net) for net in (a, b)]
        for thread in threads:
            thread.join()
        assert errors and {error.code for error in errors} == {"invalid_argument"}, errors
    """)


def test_a_process_may_end_while_threads_compute():
    for code in ("none", "short callback", "long callback", "layer"):
        run("""
            from layers_for_tests import TIMES, Times
            started = threading.Event()
            def callback(layer):
                started.set()
                for _ in range(100000 if sys.argv[2] != "short callback" else 0):
                    pass
            net = crema.Net.parse(NET, 0)
            if sys.argv[2] == "layer":
                net = crema.Net.parse(TIMES, 0)
                Times.forward = lambda self, bottom, top: callback(0)
            elif sys.argv[2] != "none":
                net.add_callback("after_forward", callback)
            last = len(net.layer_names) - 1
            net.forward(0, last)
            def forever():
                while True:
                    net.forward(0, last)
            for _ in range(3):
                threading.Thread(target=forever, daemon=True).start()
        """, code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
class TestFork:
    """A child process may run and close what the parent has opened, or gets an error."""

    # Runs `use` in a child, which ends by itself if it hangs.
    CHILD = """
        def child(use):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                status = 1
                try:
                    use()
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitpid(pid, 0)[1] == 0

        BIG = NET.replace("dim: 2 dim: 3", "dim: 128 dim: 2048")
        BIG = BIG.replace("num_output: 4", "num_output: 1000")
    """

    def run(self, program, *arguments):
        run(textwrap.dedent(self.CHILD) + textwrap.dedent(program), *arguments)

    def test_nets_that_use_several_threads(self):
        self.run("""
            net = crema.Net.parse(BIG, 0, threads=2)
            blobs = dict(zip(net.blob_names, net.blob_list()))
            blobs["data"].data[...] = np.random.rand(128, 2048)
            net.forward(0, 3)
            before = blobs["prob"].data.copy()
            def use():
                blobs["prob"].data[...] = 0
                net.forward(0, 3)
                np.testing.assert_array_equal(blobs["prob"].data, before)
                net.backward(3, 0)
            child(use)
            use()
            def close():
                global net, blobs
                del net, blobs
            child(close)
        """)

    def test_a_net_that_another_thread_is_running(self):
        self.run("""
            net, other = crema.Net.parse(NET, 0), crema.Net.parse(NET, 0)
            inside, leave = threading.Event(), threading.Event()
            def wait(layer):
                inside.set()
                leave.wait()
            net.add_callback("before_forward", wait)
            thread = start(net.forward, 0, 0)
            inside.wait()
            def use():
                try:
                    net.forward(0, 0)
                    assert False
                except crema.Error as error:
                    assert error.code == "invalid_argument" and "forked" in str(error)
                other.forward(0, 3)
                globals().pop("net")
            child(use)
            leave.set()
            thread.join()
        """)

    def test_models_and_solvers(self, tmp_path):
        self.run("""
            os.chdir(sys.argv[2])
            open("net", "w").write(BIG)
            crema.Net.parse(BIG, 1).save("weights")
            model = crema.Model.from_caffe("net", ["weights"], threads=2)
            inputs = {"data": np.ones((128, 2048), np.float32)}
            model.run(inputs)
            child(lambda: model.run(inputs))
            text = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 5 snapshot_after_train: false '
            solver = crema.Solver.parse(text + "net_param {" + TRAIN_NET + "}", threads=2)
            solver.step(1)
            child(lambda: solver.step(1))
            child(lambda: globals().pop("solver"))
        """, tmp_path)

    def test_a_net_that_reads_data_ahead(self, tmp_path):
        self.run("""
            os.chdir(sys.argv[2])
            crema.Net.parse(NET, 1).save("data.h5", hdf5=True)
            open("list", "w").write("data.h5")
            layer = 'layer { name: "d" type: "HDF5Data" top: "data/ip/0" hdf5_data_param { %s } }'
            net = crema.Net.parse(layer % 'source: "list" batch_size: 2', 0)
            net.forward(0, 0)
            def use():
                try:
                    net.forward(0, 0)
                    assert False
                except crema.Error as error:
                    assert error.code == "unsupported" and "forked" in str(error)
                globals().pop("net")
            child(use)
            net.forward(0, 0)
        """, tmp_path)

    def test_while_another_thread_loads_a_plugin(self, tmp_path):
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler")
        source, library = tmp_path / "slow.c", tmp_path / "slow.so"
        source.write_text("""
            #include <stdlib.h>
            #include <unistd.h>
            const void *crema_plugin(void) {  /* until the test writes */
              char byte;
              write(atoi(getenv("PLUGIN_ENTERED")), "x", 1);
              read(atoi(getenv("PLUGIN_LEAVES")), &byte, 1);
              return 0;
            }
        """)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        self.run("""
            entered, leaves = os.pipe(), os.pipe()
            os.environ.update(PLUGIN_ENTERED=str(entered[1]), PLUGIN_LEAVES=str(leaves[0]))
            def load():
                try:
                    crema.load_plugin(sys.argv[2])
                except crema.Error as error:
                    errors.append(error)
            errors = []
            loads = start(load)
            os.read(entered[0], 1)
            crema.Net.parse(NET, 0)  # nor does this process wait for the plugin
            child(lambda: crema.Net.parse(NET, 0).forward(0, 3))
            os.write(leaves[1], b"x")
            loads.join()
            assert "name and version" in str(errors[0])
        """, library)


WAITING = """
    INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 } } }'
    BATCH = {"data": np.zeros(2)}
    errors = []
    def expect_error(call):
        try:
            call()
        except crema.Error as error:
            assert error.code == "invalid_argument", error
            errors.append(str(error))
"""


def test_data_that_look_at_their_own_net_or_solver_are_an_error():
    run(WAITING + """
    text = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 9 snapshot_after_train: false net_param { '
    text += INPUT + ' layer { name: "y" type: "Power" bottom: "data" top: "y" loss_weight: 1 } }'
    looks = [lambda of: of.layer_names, lambda of: of.blob_list()[0].data,
             lambda of: of.forward(0, 0)]
    for look in looks:
        def data():
            yield BATCH
            look(opened[0])
            yield BATCH
        opened = []
        opened.append(crema.Net.parse(INPUT, 0, data=data))
        opened[0].forward(0, 0)
        expect_error(lambda: opened[0].forward(0, 0))
        opened.clear()
        solver = crema.Solver.parse(text, data=data)
        opened.append(solver.net)
        expect_error(lambda: solver.step(3))
        assert solver.iteration == 1
    assert len(errors) == 6 and all("cannot use the net that they feed" in e for e in errors), errors
    """)


def test_data_and_nets_that_wait_for_each_other_are_an_error():
    run(WAITING + """
    for data_first in True, False:
        outer = crema.Net.parse(INPUT, 0)
        looked, look = threading.Event(), threading.Event()
        def data():
            yield BATCH
            look.wait()
            looked.set()
            outer.blob_names   # waits for the callback, which waits for this batch
            yield BATCH
        inner = crema.Net.parse(INPUT, 0, data=data)
        def run_inner(layer):
            inner.forward(0, 0)
            look.set()
            if data_first:
                looked.wait()
            inner.forward(0, 0)
        outer.add_callback("before_forward", run_inner)
        expect_error(lambda: outer.forward(0, 0))
        del inner
    assert len(errors) == 2 and all("waits for the net" in e for e in errors), errors
    """)
