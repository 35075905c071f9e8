"""Usual lines of scripts for pycaffe."""

import numpy as np
import pytest

import caffe


@pytest.mark.parametrize("suffix", ["caffemodel", "h5"])
def test_fine_tuning_starts_from_weights(solver_file, tmp_path, suffix):
    path = str(tmp_path / f"w.{suffix}")
    net = caffe.Net(str(tmp_path / "train.prototxt"), caffe.TRAIN)
    net.params["ip"][0].data[...] = 3
    net.save(path) if suffix == "caffemodel" else net.save_hdf5(path)
    solver = caffe.SGDSolver(solver_file)
    before = solver.net.params["ip"][0].data
    solver.net.copy_from(path) if suffix == "caffemodel" else solver.net.load_hdf5(path)
    assert (before == 3).all()
    solver.test_nets[0].share_with(solver.net)
    assert (solver.test_nets[0].params["ip"][0].data == 3).all()
    solver.step(1)
    assert (solver.net.params["ip"][0].data != 3).any()


def test_a_solver_trains_the_weights_that_its_net_shares(solver_file, tmp_path):
    net = caffe.Net(str(tmp_path / "train.prototxt"), caffe.TEST)
    solver = caffe.SGDSolver(solver_file)
    start = net.params["ip"][0].data.copy()
    solver.net.share_with(net)
    np.testing.assert_array_equal(solver.net.params["ip"][0].data, start)
    solver.step(2)
    np.testing.assert_array_equal(net.params["ip"][0].data, solver.net.params["ip"][0].data)
    assert (net.params["ip"][0].data != start).any()
