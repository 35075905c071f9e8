"""Compares `crema deploy detect` with im_detect and nms of py-faster-rcnn (lib/fast_rcnn/test.py), in NumPy.

python bench/detectors/faster_rcnn.py build/bin/deploy test.prototxt weights.caffemodel photo.jpg ...
Needs: pip install "opencv-python-headless<5", and the package crema. If the weights do not exist, random ones are
written. "as bytes": pixels are resized to whole sides and rounded, as Crema does it; "as numbers": as py-faster-rcnn
does, by one factor and without rounding.
"""

import os
import sys

import cv2
import numpy as np
from compare import compare, detect

import crema

MEANS = np.array([102.9801, 115.9465, 122.7717], np.float32)
CONFIDENCE = 0.3
OVERLAP = 0.3
# Of random weights: scores differ between regions, and boxes stay near them.
FACTORS = {"cls_score": 0.3, "bbox_pred": 0.01, "rpn_cls_score": 0.1, "rpn_bbox_pred": 0.01}
FACTORS |= {"rfcn_cls": 0.5, "rfcn_bbox": 0.01}


def write_random_weights(model, path):
    """Weights of He et al., so that values neither vanish nor grow; scores and boxes vary."""
    net = crema.Net.open(model, phase="TEST")
    random = np.random.default_rng(1)
    for name, blobs in net.params.items():
        for index, blob in enumerate(blobs):
            shape = blob.data.shape
            if len(shape) < 2:  # biases; factors of Scale; mean, variance and divisor of BatchNorm
                blob.data[...] = index > 0 if len(blobs) == 3 else index == 0
                if name.endswith("branch2c"):  # residuals are small
                    blob.data[...] *= 0.3
                continue
            spread = (2 / np.prod(shape[1:])) ** 0.5
            blob.data[...] = random.normal(0, spread * FACTORS.get(name, 1), shape)
    net.save(path)


def blobs_of(image, as_bytes):
    """_get_image_blob."""
    least, most = min(image.shape[:2]), max(image.shape[:2])
    scale = 600 / least
    if np.round(scale * most) > 1000:
        scale = 1000 / most
    if as_bytes:
        height, width = (int(np.round(side * scale)) for side in image.shape[:2])
        scaled = cv2.resize(image, (width, height)).astype(np.float32) - MEANS
    else:
        scaled = cv2.resize(image.astype(np.float32) - MEANS, None, None, fx=scale, fy=scale)
    sides = scaled.shape[1] / image.shape[1], scaled.shape[0] / image.shape[0]
    return scaled.transpose(2, 0, 1)[None], scale, sides if as_bytes else (scale, scale)


def transform(boxes, deltas):
    """bbox_transform_inv."""
    widths = boxes[:, 2] - boxes[:, 0] + 1
    heights = boxes[:, 3] - boxes[:, 1] + 1
    x = (boxes[:, 0] + 0.5 * widths)[:, None] + deltas[:, 0::4] * widths[:, None]
    y = (boxes[:, 1] + 0.5 * heights)[:, None] + deltas[:, 1::4] * heights[:, None]
    w = np.exp(deltas[:, 2::4]) * widths[:, None]
    h = np.exp(deltas[:, 3::4]) * heights[:, None]
    moved = np.empty_like(deltas)
    moved[:, 0::4], moved[:, 1::4] = x - 0.5 * w, y - 0.5 * h
    moved[:, 2::4], moved[:, 3::4] = x + 0.5 * w, y + 0.5 * h
    return moved


def im_detect(net, image, as_bytes):
    data, scale, sides = blobs_of(image, as_bytes)
    net.blobs["data"].reshape(*data.shape)
    net.blobs["data"].data[...] = data
    net.blobs["im_info"].data[...] = [[data.shape[2], data.shape[3], scale]]
    net.forward()
    scores = net.blobs["cls_prob"].data.reshape(-1, net.blobs["cls_prob"].data.shape[1])
    deltas = net.blobs["bbox_pred"].data.reshape(len(scores), -1)
    boxes = transform(net.blobs["rois"].data[:, 1:5] / (sides * 2), deltas)
    boxes[:, 0::2] = np.clip(boxes[:, 0::2], 0, image.shape[1] - 1)
    boxes[:, 1::2] = np.clip(boxes[:, 1::2], 0, image.shape[0] - 1)
    return scores, boxes


def nms(rows):
    """py_cpu_nms."""
    x1, y1, x2, y2, scores = rows.T
    areas = (x2 - x1 + 1) * (y2 - y1 + 1)
    order = np.argsort(-scores, kind="stable")
    keep = []
    while order.size:
        i, rest = order[0], order[1:]
        keep.append(i)
        w = np.maximum(0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]) + 1)
        h = np.maximum(0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]) + 1)
        order = rest[w * h / (areas[i] + areas[rest] - w * h) <= OVERLAP]
    return keep


def expected_boxes(net, image, as_bytes):
    scores, boxes = im_detect(net, image, as_bytes)
    rows = []
    for label in range(1, scores.shape[1]):
        inside = np.where(scores[:, label] > CONFIDENCE)[0]
        first = 4 * label if boxes.shape[1] == 4 * scores.shape[1] else 4
        found = np.hstack([boxes[inside, first : first + 4], scores[inside, label, None]])
        rows += [[*found[i], label] for i in nms(found)]
    return rows


def main():
    deploy, model, weights, *pictures = sys.argv[1:]
    if not os.path.exists(weights):
        write_random_weights(model, weights)
    net = crema.Net.open(model, phase="TEST", weights=weights)
    means = "--mean=" + ",".join(str(mean) for mean in MEANS)
    flags = [f"--model={model}", f"--weights={weights}", means, f"--confidence={CONFIDENCE}"]
    for picture in pictures:
        image = cv2.imread(picture)
        apart = np.abs(blobs_of(image, True)[0] - blobs_of(image, False)[0])
        print(f"pixels as bytes and as numbers: {apart.mean():.3f} apart, at most {apart.max():.3f}")
        found = detect(deploy, flags, picture)
        compare("as bytes", picture, expected_boxes(net, image, True), found)
        compare("as numbers", picture, expected_boxes(net, image, False), found)


main()
