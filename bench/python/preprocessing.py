"""Compares the preprocessing of crema.Model with torchvision's transforms and OpenCV's, on random settings.

usage: preprocessing.py [SETTINGS]     (needs crema; compares with torchvision and cv2, those that are installed)
"""

import pathlib
import sys
import tempfile

import numpy as np

import crema

NET = """layer {{ name: "data" type: "Input" top: "data"
  input_param {{ shape {{ dim: 1 dim: {} dim: {} dim: {} }} }} }}
layer {{ name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param {{ pool: AVE global_pooling: true }} }}"""


def model_for(folder, shape, **keywords):
    net = folder / "net.prototxt"
    net.write_text(NET.format(*shape))
    return crema.Model.from_caffe(net, [], **keywords)


def ulps(ours, theirs):
    """The largest difference in units in the last place, of values that are not near 0."""
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    spacing = np.spacing(np.maximum(np.abs(theirs), np.float32(1e-3)))
    return float(np.max(np.abs(ours - theirs) / spacing))


def picture(random):
    height, width = random.integers(20, 400, 2)
    smooth = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[..., None] % 256
    return np.clip(smooth + random.integers(0, 80, (height, width, 3)), 0, 255).astype(np.uint8)


def against_torchvision(random, folder):
    from PIL import Image
    from torchvision import transforms

    pixels = picture(random)
    crop = tuple(int(n) for n in random.integers(16, 128, 2))
    short = int(max(crop) + random.integers(0, 40))
    mean, std = (random.uniform(0.1, 0.9, 3).round(3).tolist() for _ in range(2))
    cubic = bool(random.integers(2))
    mode = transforms.InterpolationMode.BICUBIC if cubic else transforms.InterpolationMode.BILINEAR
    theirs = transforms.Compose(
        [
            transforms.Resize(short, interpolation=mode),
            transforms.CenterCrop(crop),
            transforms.ToTensor(),
            transforms.Normalize(mean, std),
        ]
    )(Image.fromarray(pixels)).numpy()
    how = "antialias_cubic" if cubic else "antialias"
    model = model_for(
        folder, (3, *crop), rgb=True, pixel_range=1, mean=mean, std=std, resize=short, interpolation=how
    )
    setting = f"{pixels.shape[1]}x{pixels.shape[0]}, Resize({short}, {mode.value}), CenterCrop{crop}"
    return setting, ulps(model.preprocess(pixels)[0], theirs)


def against_opencv(random, folder):
    import cv2

    pixels = picture(random)
    size = tuple(int(n) for n in random.integers(16, 256, 2))  # width and height
    letterbox, rgb = (bool(n) for n in random.integers(0, 2, 2))
    mean = random.uniform(0, 255, 3).round(2).tolist()
    scale = float(np.float32(random.uniform(0.001, 1)))
    param = cv2.dnn.Image2BlobParams()
    param.size, param.mean, param.scalefactor, param.swapRB = size, (*mean, 0), (scale,) * 4, rgb
    param.paddingmode = cv2.dnn.DNN_PMODE_LETTERBOX if letterbox else cv2.dnn.DNN_PMODE_NULL
    fit = "letterbox" if letterbox else "stretch"
    model = model_for(
        folder, (3, size[1], size[0]), rgb=rgb, mean=mean, scale=scale, fit=fit, **({"pad": 0} if letterbox else {})
    )
    theirs = cv2.dnn.blobFromImageWithParams(np.ascontiguousarray(pixels[..., ::-1]), param)
    setting = f"{pixels.shape[1]}x{pixels.shape[0]} to {size[0]}x{size[1]}, {fit}, {'RGB' if rgb else 'BGR'}"
    return setting, ulps(model.preprocess(pixels), theirs)


def main():
    settings = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    for name, compare in (("torchvision", against_torchvision), ("OpenCV", against_opencv)):
        random = np.random.default_rng(1)
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = [compare(random, pathlib.Path(folder)) for _ in range(settings)]
            except ModuleNotFoundError as error:
                print(f"{name}: {error}")
                continue
        for setting, difference in found:
            print(f"{name}\t{setting}\t{difference:g}")
        equal = sum(difference == 0 for _, difference in found)
        print(f"{name}: {equal} of {settings} bit-equal, {sum(d <= 1 for _, d in found)} within one ulp")


main()
