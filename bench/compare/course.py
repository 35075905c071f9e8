"""A net in one mode, batch and precision, and the folder with what its contestants are given."""
import dataclasses
import json
import pathlib
import shutil
import sys

import contestants
import nets
import process


@dataclasses.dataclass
class Course:
    net: nets.Net
    mode: str  # infer or train
    batch: int
    precision: str
    threads: int
    runner: pathlib.Path
    descriptors: pathlib.Path
    root: pathlib.Path  # of the sources
    importer: pathlib.Path  # the program import
    weights: pathlib.Path  # of the net, as training begins
    folder: pathlib.Path
    timeout: float = process.TIMEOUT_SECONDS  # of each answer
    autotune: float = 0  # seconds that Crema may measure its implementations, in its first process

    @property
    def name(self):
        return f"{self.net.name} {self.mode} {self.batch} {self.precision}"

    @property
    def onnx(self):
        """The ONNX file that the net comes from."""
        return self.folder / "net.onnx" if self.net.onnx else ""

    @property
    def model(self):
        if self.net.onnx:
            return self.folder / "imported/deploy.prototxt"
        return self.root / (self.net.train if self.mode == "train" else self.net.deploy)

    def log(self, contestant):
        """The file of the output of a contestant, except answers."""
        return self.folder / f"{contestant}.log"

    def case_file(self, checked):
        """The file that case.py reads."""
        return self.folder / ("checked.json" if checked else "case.json")

    def set_up(self):
        """Runs Crema once, in fp32, for inputs, net and the results that others are held to.

        Returns them: of inference the files of the outputs, of training the losses of two steps.
        """
        if self.folder.exists():  # of an earlier run, perhaps of other weights
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        if self.net.onnx:
            self._import()
        crema = contestants.Crema(self).start(checked=True, precision="fp32")
        try:
            inputs = crema.ask(f"inputs {self.folder}")["inputs"]
            self._write_case(inputs, self._net_file(crema))
            return self._results(crema)
        finally:
            crema.quit()

    def _import(self):
        """Gets the ONNX file and makes net and weights of it. Throws process.Failed."""
        shapes = self.net.shapes(self.batch, self.mode)
        maker = pathlib.Path(__file__).with_name("onnx_models.py")
        process.run_once([sys.executable, str(maker), self.net.onnx, str(self.batch),
                          str(self.onnx)], self.threads, self.log("onnx"), self.timeout)
        process.run_once([str(self.importer), str(self.onnx), "-o", str(self.folder / "imported"),
                          f"--shape={shapes}"], self.threads, self.log("import"), self.timeout)
        self.weights = self.folder / "imported/weights.caffemodel"

    def _net_file(self, crema):
        if self.mode == "train":
            return self.weights
        path = self.folder / "net.caffemodel"
        crema.ask(f"weights {path}")
        return path

    def _results(self, crema):
        if self.mode == "infer":
            outputs = crema.ask(f"outputs {self.folder}")["outputs"]
            return [self.folder / output["file"] for output in outputs]
        crema.ask(f"weights {self.folder / 'learned.caffemodel'}")
        return [crema.ready["loss"], crema.ask("run 1")["loss"]]

    def _write_case(self, inputs, net_file):
        values = {"net": str(net_file), "mode": self.mode, "precision": self.precision,
                  "onnx": str(self.onnx), "threads": self.threads,
                  "descriptors": str(self.descriptors), "inputs": inputs}
        for checked in (False, True):
            rate = contestants.CHECKED_RATE if checked else contestants.RACE_RATE
            text = json.dumps({**values, "rate": rate, "dropout": not checked})
            self.case_file(checked).write_text(text, encoding="utf-8")


def make_weights(net, root, runner, threads, path, timeout=process.TIMEOUT_SECONDS):
    """Random weights for a net, as training begins. Throws process.Failed."""
    process.run_once([str(runner), "mode=weights", f"model={root / net.train}", f"weights={path}",
                      f"shapes={net.shapes(net.train_batch, 'train')}",
                      f"integers={net.bounds()}", f"threads={threads}"],
                     threads, path.with_suffix(".log"), timeout)
