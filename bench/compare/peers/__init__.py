"""A module for each peer of peer_list.py: prepare(case) converts the net, load(case) reads that.

load returns an object with run(), which returns the loss or None, and outputs(), arrays in the
order of their names; of training, updates(path) instead.
"""
