"""The results of models and solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy
    import numpy.typing


class Prediction(NamedTuple):
    """A class of an image, from Model.classify. `label` is its number if the model has no labels."""

    class_id: int
    score: float
    label: str


class Detection(NamedTuple):
    """An object in an image, from Model.detect. `box`: xmin, ymin, xmax, ymax in its pixels.
    `keypoints`: x and y of each, if the model has them."""

    class_id: int
    score: float
    label: str
    box: tuple[float, float, float, float]
    keypoints: tuple[tuple[float, float], ...] = ()


class ClassShare(NamedTuple):
    """A class in an image, and its share of the pixels (0 to 1)."""

    class_id: int
    share: float
    label: str


class Segmentation(NamedTuple):
    """From Model.segment: the class of each pixel, height x width of the image, and the classes
    that occur, largest share first."""

    mask: numpy.typing.NDArray[numpy.uint8]
    classes: list[ClassShare]


class Curve(NamedTuple):
    """The values of a metric, and the iterations they belong to."""

    iterations: numpy.typing.NDArray[numpy.int64]
    values: numpy.typing.NDArray[numpy.float64]
