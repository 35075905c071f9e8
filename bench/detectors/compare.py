"""Compares the boxes of two programs: shared by the scripts of this folder."""

import json
import os
import subprocess

import numpy as np


def detect(deploy, arguments, picture):
    """Returns the detections of `crema deploy detect`."""
    command = [*deploy.split(), "detect", "--json", *arguments, picture]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)["detections"]


def compare(title, picture, expected, found):
    """Prints how far boxes of the same class are from each other. `expected` has rows of left, top,
    right, bottom, score, class and x, y of points. Returns the numbers of boxes that are missing and
    too many, and the largest differences of edges and points."""
    left = list(found)
    edge = point = score = 0.0
    missing = 0
    for row in expected:
        near = [
            (np.abs(np.subtract(one["box"], row[:4])).max(), i)
            for i, one in enumerate(left)
            if one["index"] == row[5]
        ]
        if not near or min(near)[0] > 5:
            missing += 1
            continue
        distance, i = min(near)
        one = left.pop(i)
        edge = max(edge, distance)
        score = max(score, abs(one["score"] - row[4]))
        if "keypoints" in one:
            point = max(point, np.abs(np.ravel(one["keypoints"]) - row[6:]).max())
    points = f", points {point:.3f}" if expected and len(expected[0]) > 6 else ""
    print(
        f"{title:10s} {os.path.basename(picture):13s} {len(expected):3d} boxes, {missing} missing, "
        f"{len(left)} more, edges {edge:.3f} pixels{points}, scores {score:.1e}"
    )
    return missing, len(left), edge, point
