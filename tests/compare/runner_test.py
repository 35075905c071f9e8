"""Tests of compare_runner, where COMPARE_RUNNER names one (-DCREMA_BUILD_BENCH=ON)."""
import array
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNNER = os.environ.get("COMPARE_RUNNER", "")
TRAIN = f"model={ROOT}/models/lenet/train_val.prototxt"
DEPLOY = f"model={ROOT}/models/lenet/deploy.prototxt"


def run(arguments, commands=()):
    """Exit code and the answers."""
    done = subprocess.run([RUNNER, *arguments], input="".join(line + "\n" for line in commands),
                          capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def floats(path):
    values = array.array("f")
    values.frombytes(path.read_bytes())
    return values


@unittest.skipUnless(RUNNER and os.path.exists(RUNNER), "there is no compare_runner")
class RunnerTest(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.weights = f"weights={self.folder}/w.caffemodel"
        self.train = ["mode=train", TRAIN, self.weights, "shapes=data:4,1,28,28;label:4",
                      "integers=label:10", "threads=1"]
        code, answers = run(["mode=weights", *self.train[1:]])
        self.assertEqual((code, answers), (0, []))

    def test_inference_writes_its_inputs_and_outputs(self):
        code, answers = run(["mode=infer", DEPLOY, self.weights, "shapes=data:3,1,28,28"],
                            ["run 2", f"inputs {self.folder}", f"outputs {self.folder}", "memory"])
        self.assertEqual(code, 0)
        self.assertTrue(answers[0]["ready"])
        self.assertEqual(len(answers[1]["seconds"]), 2)
        self.assertEqual(answers[2]["inputs"], [{"name": "data", "shape": [3, 1, 28, 28],
                                                 "file": "input0.f32", "integer": False}])
        self.assertEqual(len(floats(self.folder / "input0.f32")), 3 * 28 * 28)
        self.assertEqual(answers[3]["outputs"][0]["shape"], [3, 10])
        probabilities = floats(self.folder / "output0.f32")
        for row in range(3):
            self.assertAlmostEqual(sum(probabilities[10 * row:10 * row + 10]), 1, 5)
        self.assertGreater(answers[4]["peak_kb"], 1000)

    def test_labels_are_whole_numbers_below_their_bound(self):
        _, answers = run(self.train, [f"inputs {self.folder}"])
        label = answers[1]["inputs"][1]
        self.assertTrue(label["integer"])
        self.assertTrue(all(x in range(10) for x in floats(self.folder / label["file"])))

    def test_training_learns_and_repeats(self):
        learned = self.folder / "learned.caffemodel"
        _, first = run([*self.train, "rate=0.001", "dropout=0"], ["run 30", f"weights {learned}"])
        self.assertLess(first[1]["loss"], first[0]["loss"])
        _, again = run([*self.train, "rate=0.001"], ["run 30", f"updates {learned}"])
        self.assertEqual(again[1]["loss"], first[1]["loss"])
        self.assertEqual(again[2]["difference"], 0)
        _, shorter = run([*self.train, "rate=0.001"], ["run 3", f"updates {learned}"])
        self.assertGreater(shorter[2]["difference"], 0.1)

    def test_rows_are_measured_once_and_the_results_are_the_same(self):
        os.environ["XDG_CACHE_HOME"] = str(self.folder)
        self.addCleanup(os.environ.pop, "XDG_CACHE_HOME")
        tuned = [*self.train, "rate=0.001", "dropout=0", "autotune=20"]
        _, first = run(tuned, ["run 3"])
        _, again = run(tuned, ["run 3"])
        self.assertEqual(again[1]["loss"], first[1]["loss"])
        self.assertTrue((self.folder / "crema" / "implementation_times").exists())

    def test_what_is_wrong_is_answered(self):
        for arguments, expect in (
                (["modell=x"], "did you mean 'model'?"),
                (["mode=inferr"], "use infer, train or weights"),
                (["threads=two"], "not a number"),
                (["precision=fp8", DEPLOY, self.weights], "use FP32 or BF16"),
                (["mode=infer", self.weights], "model=FILE is missing"),
                (["mode=infer", DEPLOY, "weights=/nowhere"], "/nowhere")):
            code, answers = run(arguments)
            self.assertEqual(code, 1, arguments)
            self.assertIn(expect, answers[-1]["error"])
        code, answers = run(["mode=infer", DEPLOY, self.weights], ["fly", "run 1"])
        self.assertEqual(code, 1)
        self.assertIn("unknown command 'fly'", answers[-1]["error"])


if __name__ == "__main__":
    unittest.main()
