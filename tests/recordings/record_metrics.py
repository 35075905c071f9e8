#!/usr/bin/env python3
"""Records metrics of scikit-learn and pycocotools for tests/metrics/recorded_metrics_test.cc.

    python3 -m venv venv && venv/bin/pip install scikit-learn pycocotools
    venv/bin/python tests/recordings/record_metrics.py > tests/recordings/metrics.txt

A line each: a name, then its numbers.
"""

import contextlib
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from sklearn import metrics

RANDOM = np.random.default_rng(20240809)


def print_line(name, values):
    print(name, *(repr(float(v)) for v in np.ravel(values)))


def record_classes():
    count, classes = 150, 5  # class 4 is rare and never predicted
    labels = RANDOM.integers(0, 4, count)
    labels[:3] = 4
    scores = RANDOM.dirichlet(np.ones(classes), count)
    scores[np.arange(count), labels] += RANDOM.uniform(0, 0.4, count)
    scores[:, 4] *= 0.1
    scores = np.round(scores, 2).astype(np.float32)  # with ties
    predicted = scores.argmax(axis=1)
    print_line("class_labels", labels)
    print_line("class_scores", scores)
    print_line("confusion", metrics.confusion_matrix(labels, predicted))
    rates = metrics.precision_recall_fscore_support(labels, predicted, zero_division=0)
    for name, values in zip(("precision", "recall", "f1", "support"), rates):
        print_line(name, values)
    for mean in ("macro", "weighted"):
        rates = metrics.precision_recall_fscore_support(
            labels, predicted, average=mean, zero_division=0)
        print_line(mean, rates[:3])
    print_line("accuracy", metrics.accuracy_score(labels, predicted))
    print_line("iou", metrics.jaccard_score(labels, predicted, average=None))
    print_line("mean_iou", metrics.jaccard_score(labels, predicted, average="macro"))
    print_line("auc", [metrics.roc_auc_score(labels == c, scores[:, c]) for c in range(classes)])
        # VOC's integral if everything is found; without ties.
    hits = RANDOM.uniform(0, 1, 60) < 0.4
    print_line("hits", hits)
    print_line("integral", metrics.average_precision_score(hits, -np.arange(60.0)))


def random_box():
    left, top = RANDOM.uniform(0, 300, 2)
    side = RANDOM.choice([12, 50, 140])
    width, height = RANDOM.uniform(0.6, 1.4, 2) * side
    return np.array([left, top, width, height])


def record_boxes():
    objects, detections = [], []
    for image in range(12):
        for _ in range(RANDOM.integers(0, 7)):
            label, box = int(RANDOM.integers(1, 4)), random_box()
            objects.append((image, label, box))
            if RANDOM.uniform() < 0.8:
                moved = box + RANDOM.normal(0, 0.08, 4) * np.tile(box[2:], 2)
                seen = label if RANDOM.uniform() < 0.9 else int(RANDOM.integers(1, 4))
                detections.append((image, seen, round(RANDOM.uniform(0.3, 1), 2), moved))
            if RANDOM.uniform() < 0.3:  # found twice
                moved = box + RANDOM.normal(0, 0.1, 4) * np.tile(box[2:], 2)
                detections.append((image, label, round(RANDOM.uniform(0.1, 0.9), 2), moved))
        for _ in range(RANDOM.integers(0, 3)):
            detections.append((image, int(RANDOM.integers(1, 4)),
                               round(RANDOM.uniform(0, 0.7), 2), random_box()))
    corners = lambda b: [b[0], b[1], b[0] + b[2], b[1] + b[3]]
    print_line("objects", [[i, c, *corners(b)] for i, c, b in objects])
    print_line("detections", [[i, c, s, *corners(b)] for i, c, s, b in detections])
    record_coco(objects, detections)


def record_coco(objects, detections):
    with contextlib.redirect_stdout(sys.stderr):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": i} for i in range(12)],
            "categories": [{"id": c} for c in (1, 2, 3)],
            "annotations": [
                {"id": n + 1, "image_id": i, "category_id": c, "bbox": list(b),
                 "area": b[2] * b[3], "iscrowd": 0}
                for n, (i, c, b) in enumerate(objects)],
        }
        truth.createIndex()
        found = truth.loadRes([
            {"image_id": i, "category_id": c, "score": s, "bbox": list(b)}
            for i, c, s, b in detections])
        evaluation = COCOeval(truth, found, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    # precision: overlap x recall x class x area range x most detections
    precision = evaluation.eval["precision"][:, :, :, :, 2]
    print_line("coco_class", precision[:, :, :, 0].mean(axis=(0, 1)))
    print_line("coco_summary", evaluation.stats[:6])  # AP, AP50, AP75, small, medium, large


if __name__ == "__main__":
    record_classes()
    record_boxes()
