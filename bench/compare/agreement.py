"""Checks that a contestant computes the same as Crema."""
import array
import math

# Largest difference of outputs, against their largest value; of the losses of two steps, against
# the loss; of what the first step changes in the weights, the length of the difference against the
# length. Gradients of deep nets with random weights amplify rounding: against f64, Crema and
# PyTorch are off by 2 % on ResNet-50, and PyTorch in channels_last by 4 %. bf16 has 8 bits: on
# ResNet-50 with random weights PyTorch is off by 0.18 of f32, OpenVINO by 0.34, Crema by 0.19.
TOLERANCE = {
    ("infer", "fp32"): 1e-3,
    ("train", "fp32"): 1e-1,
    ("infer", "bf16"): 4e-1,
    ("train", "bf16"): 5e-1,
}


class Disagreement(Exception):
    """The results differ by more than rounding."""


def check(course, reference, running):
    """The difference of a contestant that was started for checking. Throws Disagreement.

    `reference` is what Course.set_up returned.
    """
    if course.mode == "infer":
        error = _outputs_error(course, reference, running)
    else:
        error = _training_error(course, reference, running)
    limit = TOLERANCE[(course.mode, course.precision)]
    if not error <= limit:
        raise Disagreement(f"results differ by {error:.2g}, allowed are {limit:g}")
    return error


def relative(difference, size):
    """Returns the difference divided by the size; infinity for a size of 0."""
    if size == 0:
        return 0.0 if difference == 0 else math.inf
    return difference / size


def _largest(errors):
    """NaN if one of them is, which max() may lose."""
    return math.nan if any(map(math.isnan, errors)) else max(errors, default=0.0)


def _outputs_error(course, reference, running):
    folder = course.folder / "outputs"
    folder.mkdir(exist_ok=True)
    files = [folder / output["file"] for output in running.ask(f"outputs {folder}")["outputs"]]
    if len(files) != len(reference):
        raise Disagreement(f"{len(files)} outputs, not {len(reference)}")
    return _largest([_difference(_floats(a), _floats(b)) for a, b in zip(files, reference)])


def _training_error(course, reference, running):
    learned = running.ask(f"updates {course.folder / 'learned.caffemodel'}")
    losses = [running.ready["loss"], running.ask("run 1")["loss"]]
    if None in losses:
        raise Disagreement(f"the losses are {losses}")
    if learned["difference"] is None:  # as the runner writes what is no number
        raise Disagreement("the difference of the weights is no number")
    return _largest([learned["difference"],
                     *(relative(abs(a - b), abs(b)) for a, b in zip(losses, reference))])


def _floats(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def _difference(got, expected):
    if len(got) != len(expected):
        raise Disagreement(f"{len(got)} values, not {len(expected)}")
    return relative(_largest([abs(a - b) for a, b in zip(got, expected)]),
                    _largest([abs(x) for x in expected]))
