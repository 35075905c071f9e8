"""Compares `crema deploy detect` with OpenCV 4's dnn module: an SSD and a YOLO.

python bench/detectors/opencv.py build/bin/deploy YOLOV8.onnx PICTURE...
Needs: pip install "opencv-python-headless<5". The SSD is tests/models/slim-320, with its tail for OpenCV; Crema
finds the tail by itself. The YOLO is any v8 to v12 with one input size.
"""

import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from compare import compare, detect

SLIM = Path(__file__).parents[2] / "tests" / "models" / "slim-320"
CONFIDENCE = 0.6


def ssd(deploy, pictures):
    tail = (SLIM / "tail.prototxt").read_text()
    tail = tail.replace("num_classes: 2", "num_classes: 2 share_location: true")  # no default there
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as net:
        net.write((SLIM / "slim-320.prototxt").read_text() + tail)
        net.flush()
        model = cv2.dnn.readNetFromCaffe(net.name, str(SLIM / "slim-320.caffemodel"))
    flags = ["--rgb", "--mean=127", "--scale=0.0078125", f"--model={SLIM}/slim-320.prototxt"]
    for picture in pictures:
        image = cv2.imread(picture)
        height, width = image.shape[:2]
        blob = cv2.dnn.blobFromImage(image, 1 / 128, (320, 240), (127, 127, 127), swapRB=True)
        model.setInput(blob)
        rows = model.forward("faces").reshape(-1, 7)
        sides = [width, height, width, height]
        expected = [
            [*np.clip(row[3:] * sides, 0, sides), row[2], 1] for row in rows if row[2] > CONFIDENCE
        ]
        flags_ = [*flags, f"--weights={SLIM}/slim-320.caffemodel"]
        compare("slim-320", picture, expected, detect(deploy, flags_, picture))


def yolo(deploy, path, pictures, confidence, overlap=0.7):
    model = cv2.dnn.readNetFromONNX(path)
    side = 320
    for picture in pictures:
        image = cv2.imread(picture)
        height, width = image.shape[:2]
        params = cv2.dnn.Image2BlobParams()
        params.scalefactor = (1 / 255,) * 4
        params.size = (side, side)
        params.swapRB = True
        params.paddingmode = cv2.dnn.DNN_PMODE_LETTERBOX
        params.borderValue = (114,) * 4
        model.setInput(cv2.dnn.blobFromImageWithParams(image, params))
        columns = model.forward()[0].T
        classes = columns[:, 4:].argmax(1)
        scores = columns[:, 4:].max(1)
        corner = columns[:, :2] - columns[:, 2:4] / 2
        boxes = np.hstack([corner, columns[:, 2:4]])
        kept = cv2.dnn.NMSBoxesBatched(boxes.tolist(), scores, classes, confidence, overlap)
        scale = min(side / height, side / width)
        shift = (side - width * scale) / 2, (side - height * scale) / 2
        edges = np.hstack([corner, corner + columns[:, 2:4]])
        edges = (edges - [*shift, *shift]) / scale
        sides = [width, height, width, height]
        expected = [[*np.clip(edges[i], 0, sides), scores[i], classes[i]] for i in kept]
        flags = [f"--model={path}", "--fit=letterbox", "--rgb", "--pixel_range=1"]
        flags += [f"--confidence={confidence}", f"--nms={overlap}"]
        compare(Path(path).stem, picture, expected, detect(deploy, flags, picture))


def main():
    deploy, path, confidence, *pictures = sys.argv[1:]
    ssd(deploy, pictures)
    yolo(deploy, path, pictures, float(confidence))


main()
