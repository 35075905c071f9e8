"""The contestants of a race, and their commands."""
import pathlib
import sys

import process

HERE = pathlib.Path(__file__).resolve().parent

# Learning rate of the steps whose results are compared: changes of weights must exceed the rounding
# of the weights, but the loss must not reach the value where Caffe and Crema saturate (the
# logarithm of the smallest float) and PyTorch does not, as CaffeNet's did with 0.01.
CHECKED_RATE = 0.001
RACE_RATE = 1e-4


class Crema:
    """A compare_runner: that of the course, or that of another build under another name."""

    def __init__(self, course, name="crema", runner=None):
        self.course = course
        self.name = name
        self.runner = runner or course.runner

    def prepare(self):
        """Nothing to convert."""

    def start(self, checked=False, precision=None):
        """checked: for comparing results, with large steps and without dropout."""
        course = self.course
        command = [
            str(self.runner), f"mode={course.mode}", f"weights={course.weights}",
            f"model={course.model}", f"shapes={course.net.shapes(course.batch, course.mode)}",
            f"integers={course.net.bounds()}", f"threads={course.threads}",
            f"precision={precision or course.precision}",
            f"rate={CHECKED_RATE if checked else RACE_RATE}", f"dropout={int(not checked)}"]
        if course.autotune > 0:
            command.append(f"autotune={course.autotune}")
        return process.Process(command, course.threads, course.log(self.name), course.timeout)


class Peer:
    """A worker of one course."""

    def __init__(self, name, course):
        self.name = name
        self.course = course

    def prepare(self):
        """Converts the net. Throws process.Failed."""
        process.run_once(self._command("prepare", False), self.course.threads,
                         self.course.log(self.name), self.course.timeout)

    def start(self, checked=False):
        return process.Process(self._command("serve", checked), self.course.threads,
                               self.course.log(self.name), self.course.timeout)

    def _command(self, action, checked):
        return [sys.executable, str(HERE / "worker.py"), self.name, action,
                str(self.course.case_file(checked))]
