"""Drawn digits for the notebooks: 28 x 28, white on black, so that they need no download."""

import numpy as np

FONT = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###.
"""
GLYPHS = np.array([[[c == "#" for c in word] for word in line.split()]
                   for line in FONT.split("\n") if line]).swapaxes(0, 1)


def draw(count, seed):
    """Returns images (count x 1 x 28 x 28, float32, 0 to 1) and labels (count, float32).

    Each digit has a size, a place, a slant and a brightness of its own, and noise.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    images = np.zeros((count, 1, 28, 28), np.float32)
    y, x = np.mgrid[:28, :28].astype(float)
    for image, label in zip(images, labels):
        height, width = rng.uniform(14, 22), rng.uniform(9, 16)
        top, left = rng.uniform(2, 26 - height), rng.uniform(3, 25 - width)
        row = (y - top) / height * 7
        column = (x - left + rng.uniform(-0.3, 0.3) * (y - 14)) / width * 5
        inside = (row >= 0) & (row < 7) & (column >= 0) & (column < 5)
        glyph = GLYPHS[label][np.clip(row, 0, 6).astype(int), np.clip(column, 0, 4).astype(int)]
        image[0] = (inside & glyph) * rng.uniform(0.5, 1)
    images += rng.normal(0, 0.15, images.shape)
    return images.clip(0, 1).astype(np.float32), labels.astype(np.float32)
