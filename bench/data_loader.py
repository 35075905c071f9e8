"""images/s of PyTorch's DataLoader over a folder of JPEG files, for data.sh.

Usage: data_loader.py PHOTOS torchvision|opencv WORKERS SECONDS
The work is that of data_rates: a random 224 x 224 crop, mirrored in half of the cases, float, mean.
"""
import os
import random
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

CROP = 224
BATCH = 32


class Photos(Dataset):
    def __init__(self, folder, reader):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.read = reader

    def __len__(self):
        return 100 * len(self.paths)

    def __getitem__(self, index):
        return self.read(self.paths[index % len(self.paths)])


def torchvision_reader():
    from PIL import Image
    from torchvision import transforms

    steps = transforms.Compose([
        transforms.RandomCrop(CROP),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [1, 1, 1]),
    ])
    return lambda path: steps(Image.open(path).convert("RGB"))


def opencv_reader():
    import cv2

    cv2.setNumThreads(1)
    mean = numpy.array([104, 117, 123], numpy.float32)

    def read(path):
        image = cv2.imread(path)
        top = random.randint(0, image.shape[0] - CROP)
        left = random.randint(0, image.shape[1] - CROP)
        image = image[top:top + CROP, left:left + CROP]
        if random.random() < 0.5:
            image = image[:, ::-1]
        image = image.astype(numpy.float32) - mean
        return torch.from_numpy(numpy.ascontiguousarray(image.transpose(2, 0, 1)))

    return read


def main():
    folder, kind, workers, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    torch.set_num_threads(1)
    reader = {"torchvision": torchvision_reader, "opencv": opencv_reader}[kind]()
    batches = iter(DataLoader(Photos(folder, reader), BATCH, num_workers=workers))
    for _ in range(10):
        next(batches)
    begin = time.monotonic()
    count = 0
    while time.monotonic() < begin + seconds:
        count += len(next(batches))
    print(f"{count / (time.monotonic() - begin):.1f}")


if __name__ == "__main__":
    main()
