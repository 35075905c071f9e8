"""Compares `crema deploy detect` with YOLOX's own decoding, on drawn letters.

python bench/detectors/yolox.py build/bin/deploy common_det.onnx
Needs: pip install "opencv-python-headless<5" onnxruntime. The model is in the package ddddocr (pip download --no-deps).
"""

import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
from compare import compare, detect

SIDE = 416
CONFIDENCE = 0.1
OVERLAP = 0.45


def draw_letters(random):
    noise = random.integers(0, 255, (104, 104, 3), np.uint8)
    image = cv2.resize(cv2.GaussianBlur(noise, (9, 9), 0), (SIDE, SIDE))
    for _ in range(6):
        letter = chr(65 + int(random.integers(26)))
        place = int(random.integers(10, 350)), int(random.integers(60, 400))
        size = float(random.uniform(1.2, 2.6))
        color = tuple(int(v) for v in random.integers(0, 255, 3))
        cv2.putText(image, letter, place, cv2.FONT_HERSHEY_SIMPLEX, size, color, 5)
    return image


def decode(outputs):
    """demo_postprocess of yolox/utils/demo_utils.py."""
    grids, strides = [], []
    for stride in (8, 16, 32):
        x, y = np.meshgrid(np.arange(SIDE // stride), np.arange(SIDE // stride))
        grids.append(np.stack((x, y), 2).reshape(-1, 2))
        strides.append(np.full((grids[-1].shape[0], 1), stride))
    grid, stride = np.concatenate(grids), np.concatenate(strides)
    center = (outputs[:, :2] + grid) * stride
    size = np.exp(outputs[:, 2:4]) * stride
    return np.hstack([center - size / 2, center + size / 2]), outputs[:, 4] * outputs[:, 5]


def overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(0, width) * max(0, height)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def main():
    deploy, model = sys.argv[1:]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    for number in range(4):
        image = draw_letters(random)
        picture = str(Path(tempfile.mkdtemp()) / f"letters{number}.png")
        cv2.imwrite(picture, image)
        pixels = image.transpose(2, 0, 1)[None].astype(np.float32)
        boxes, scores = decode(session.run(None, {"images": pixels})[0][0])
        kept = []
        for i in np.argsort(-scores):
            if scores[i] > CONFIDENCE and all(overlap(boxes[i], boxes[k]) <= OVERLAP for k in kept):
                kept.append(i)
        expected = [[*np.clip(boxes[i], 0, SIDE), scores[i], 0] for i in kept]
        flags = [f"--model={model}", f"--nms={OVERLAP}", f"--confidence={CONFIDENCE}"]
        compare("yolox", picture, expected, detect(deploy, flags, picture))


main()
