"""Tests of the driver in bench/compare."""
import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
COMPARE = HERE.parents[1] / "bench" / "compare"
sys.path.insert(0, str(COMPARE))

# pylint: disable=wrong-import-position
import agreement
import nets
import peer_list
import process
import race
import recorded
import report


class Pretender:
    """A contestant whose process is pretender.py."""

    def __init__(self, test, name, **values):
        self.name = name
        self.values = {"name": name, "diary": str(test.diary), "outputs": [1, 2, 3], **values}
        self.log = test.folder / f"{name}.log"
        self.starts = 0

    def prepare(self):
        if "unprepared" in self.values:
            raise process.Failed(self.values["unprepared"])

    def start(self, checked=False):
        del checked
        self.starts += 1
        command = [sys.executable, str(HERE / "pretender.py"), json.dumps(self.values)]
        return process.Process(command, 1, self.log)


class AgreementTest(unittest.TestCase):

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "outputs").mkdir()

    def check(self, mode, reference, ready=None, **answers):
        course = types.SimpleNamespace(mode=mode, precision="fp32", folder=self.folder)
        running = types.SimpleNamespace(ready=ready, ask=lambda line: answers[line.split()[0]])
        return agreement.check(course, reference, running)

    def write(self, name, values):
        path = self.folder / name
        with open(path, "wb") as file:
            array.array("f", values).tofile(file)
        return path

    def infer(self, reference, outputs):
        """Lists of lists of floats."""
        for index, values in enumerate(outputs):
            self.write(f"outputs/{index}", values)
        files = [self.write(f"reference{i}", values) for i, values in enumerate(reference)]
        return self.check("infer", files,
                          outputs={"outputs": [{"file": str(i)} for i in range(len(outputs))]})

    def train(self, reference, losses, difference):
        return self.check("train", reference, {"loss": losses[0]}, run={"loss": losses[1]},
                          updates={"difference": difference})

    def test_a_nan_anywhere_in_the_outputs_differs(self):
        nan = math.nan
        for outputs in ([[nan, 2], [3]], [[1, nan], [3]], [[1, 2], [nan]]):
            with self.assertRaisesRegex(agreement.Disagreement, "nan"):
                self.infer([[1, 2], [3]], outputs)
            with self.assertRaisesRegex(agreement.Disagreement, "nan"):
                self.infer(outputs, outputs)
        with self.assertRaisesRegex(agreement.Disagreement, "nan"):
            self.infer([[math.inf]], [[math.inf]])

    def test_a_nan_anywhere_in_training_differs(self):
        for losses, difference in (((math.nan, 1.5), 0), ((2, math.nan), 0), ((2, 1.5), math.nan)):
            with self.assertRaisesRegex(agreement.Disagreement, "nan"):
                self.train([2, 1.5], losses, difference)
        with self.assertRaisesRegex(agreement.Disagreement, "nan"):
            self.train([2, math.nan], [2, math.nan], 0)
        with self.assertRaisesRegex(agreement.Disagreement, "no number"):
            self.train([2, 1.5], [2, 1.5], None)

    def test_with_a_reference_of_zero_only_zero_agrees(self):
        self.assertEqual(self.infer([[0, 0]], [[0, 0]]), 0)
        self.assertEqual(self.infer([[]], [[]]), 0)
        with self.assertRaisesRegex(agreement.Disagreement, "inf"):
            self.infer([[1], [0, 0]], [[1], [0, 1e-6]])
        self.assertEqual(self.train([2, 0], [2, 0], 0), 0)
        with self.assertRaisesRegex(agreement.Disagreement, "inf"):
            self.train([2, 0], [2, 1e-6], 0)
        self.assertEqual(agreement.relative(0, 0), 0)
        self.assertTrue(math.isnan(agreement.relative(math.nan, 1)))
        self.assertFalse(agreement.relative(math.nan, 0) <= 1)


class RaceTest(unittest.TestCase):

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.diary = self.folder / "diary"
        self.reference = [self.folder / "reference.f32"]
        with open(self.reference[0], "wb") as file:
            array.array("f", [1, 2, 3]).tofile(file)
        self.course = types.SimpleNamespace(net=nets.NETS["lenet"], mode="infer", batch=8,
                                            precision="fp32", folder=self.folder)

        # Machines that run tests are busy; no start of a pretender is a long one.
        patch = unittest.mock.patch.object(race, "LONG_START_SECONDS", 1000)
        patch.start()
        self.addCleanup(patch.stop)

    def hold(self, *contestants, turns=3, cold_starts=1):
        return race.hold(self.course, self.reference, contestants, turns, 0.002, cold_starts)

    def entries(self, runners):
        return [report.entry(self.course, runner, runners[0]) for runner in runners]

    def test_contestants_take_turns_and_never_run_at_the_same_time(self):
        self.hold(Pretender(self, "crema"), Pretender(self, "peer"))
        notes = [line.split() for line in self.diary.read_text(encoding="utf-8").splitlines()]
        runs = [(name, what) for name, what in notes if what in ("begins", "stops")]
        for begin, stop in zip(runs[::2], runs[1::2]):
            self.assertEqual((begin[0], "begins", "stops"), (stop[0], begin[1], stop[1]))
        turns = [name for name, what in runs if what == "begins"][-6:]
        self.assertEqual(turns, ["crema", "peer"] * 3)

    def test_ratios_and_rates_come_from_the_turns(self):
        runners = self.hold(Pretender(self, "crema", seconds=0.001),
                            Pretender(self, "peer", seconds=0.004))
        crema, peer = self.entries(runners)
        self.assertAlmostEqual(peer["times_crema"][1], 4)
        self.assertAlmostEqual(crema["median_ms"], 1)
        self.assertAlmostEqual(peer["images_per_second"], 2000)
        self.assertEqual(peer["peak_rss_mb"], 2)
        self.assertEqual(peer["runs"], 3)
        self.assertEqual(crema["runs"], 6)

    def test_who_computes_something_else_is_not_timed(self):
        runners = self.hold(Pretender(self, "crema"), Pretender(self, "liar", outputs=[1, 2, 3.1]))
        self.assertIn("results differ by 0.033", runners[1].why_out)
        self.assertEqual(runners[1].turns, [])
        self.assertEqual(len(runners[0].turns), 3)

    def test_outputs_that_are_no_numbers_or_too_few_do_not_agree(self):
        runners = self.hold(Pretender(self, "nan", outputs=[1, float("nan"), 3]),
                            Pretender(self, "short", outputs=[1, 2]))
        self.assertIn("results differ by nan", runners[0].why_out)
        self.assertIn("2 values, not 3", runners[1].why_out)

    def test_losses_and_updates_of_training_are_compared(self):
        self.course.mode = "train"
        self.reference = [2.0, 1.5]
        runners = self.hold(Pretender(self, "same", losses=[2.0, 1.5] + [1.0] * 100),
                            Pretender(self, "loss", losses=[2.0, 1.8]),
                            Pretender(self, "broken", losses=[2.0, None]),
                            Pretender(self, "update", losses=[2.0, 1.5], difference=0.3))
        self.assertEqual(runners[0].why_out, "")
        self.assertIn("differ by 0.2", runners[1].why_out)
        self.assertIn("the losses are [2.0, None]", runners[2].why_out)
        self.assertIn("differ by 0.3", runners[3].why_out)

    def test_who_fails_is_out_with_its_reason_and_the_others_go_on(self):
        runners = self.hold(Pretender(self, "crema"), Pretender(self, "unable", dies_at="start"),
                            Pretender(self, "dead", dies_at="run"),
                            Pretender(self, "unprepared", unprepared="no such layer"))
        self.assertEqual(runners[1].why_out, "cannot read this net")
        self.assertIn("ended with status 3", runners[2].why_out)
        self.assertEqual(runners[3].why_out, "no such layer")
        self.assertEqual(len(runners[0].turns), 3)
        skipped = [e for e in self.entries(runners) if "skipped" in e]
        self.assertEqual([e["contestant"] for e in skipped], ["unable", "dead", "unprepared"])

    def test_each_cold_start_is_a_process_of_its_own(self):
        contestant = Pretender(self, "crema")
        runners = self.hold(contestant, cold_starts=3)
        self.assertEqual(contestant.starts, 3)
        self.assertEqual(len(runners[0].cold_starts), 3)
        self.course.mode = "train"  # where the checked process does not count
        self.reference = [1.0, 1.0]
        contestant = Pretender(self, "crema")
        runners = self.hold(contestant, cold_starts=3)
        self.assertEqual(contestant.starts, 4)
        self.assertEqual(len(runners[0].cold_starts), 3)

    def test_a_long_start_is_not_repeated(self):
        contestant = Pretender(self, "crema")
        with unittest.mock.patch.object(race, "LONG_START_SECONDS", 0):
            self.hold(contestant, cold_starts=3)
        self.assertEqual(contestant.starts, 1)

    def test_tables_hold_ratios_and_what_was_left_out(self):
        runners = self.hold(Pretender(self, "crema"), Pretender(self, "peer", seconds=0.002),
                            Pretender(self, "liar", outputs=[0, 0, 0]))
        path = self.folder / "compare"
        report.write_markdown(path, {"threads": 2}, self.entries(runners))
        text = path.read_text(encoding="utf-8")
        self.assertIn("| lenet | infer | 8 | fp32 | 1 | – | 2.00 (2.00 to 2.00) | – |", text)
        self.assertIn("- lenet infer 8 fp32, liar: results differ", text)
        report.write_json(path, {"threads": 2}, self.entries(runners))
        values = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual([e["contestant"] for e in values["entries"]], ["crema", "peer", "liar"])


    def test_new_results_replace_those_of_the_same_race_only(self):
        older = self.entries(self.hold(Pretender(self, "crema"), Pretender(self, "gone")))
        newer = self.entries(self.hold(Pretender(self, "crema", seconds=0.002)))
        other = [{**entry, "batch": 1} for entry in older]
        path = self.folder / "compare.json"
        self.assertEqual(report.read_json(path), [])
        report.write_json(path, {}, other + older)
        kept = report.replace(report.read_json(path), newer)
        self.assertEqual([(e["batch"], e["contestant"]) for e in kept],
                         [(1, "crema"), (1, "gone"), (8, "crema")])
        self.assertAlmostEqual(kept[2]["median_ms"], 2)

    def test_recorded_times_stand_beside_the_raced_ones(self):
        table = self.folder / "caffe.tsv"
        table.write_text("# a comment\nnet\tbatch\tthreads\tmode\tfwd_ms\ttotal_ms\n"
                         "lenet_train_test\t8\t2\tinfer\t3\t4.5\n"
                         "lenet_train_test\t8\t1\tinfer\t6\t9\n", encoding="utf-8")
        path = self.folder / "compare"
        report.write_markdown(path, {}, self.entries(self.hold(Pretender(self, "crema"))),
                              recorded.read(table, 2))
        self.assertIn("| fp32 | 1 | 4.50 (4.5 ms) |", path.read_text(encoding="utf-8"))


class ListsTest(unittest.TestCase):

    def test_every_peer_has_a_module_and_every_net_its_files(self):
        for name in peer_list.PEERS:
            self.assertTrue((COMPARE / "peers" / f"{name}.py").exists(), name)
        for net in nets.NETS.values():
            for path in (net.train, net.deploy):
                self.assertTrue((COMPARE.parents[1] / path).exists(), path)

    def test_shapes_are_written_as_the_runner_takes_them(self):
        net = nets.NETS["lenet"]
        self.assertEqual(net.shapes(8, "train"), "data:8,1,28,28;label:8")
        self.assertEqual(net.shapes(8, "infer"), "data:8,1,28,28")
        self.assertEqual(net.bounds(), "label:10")

    def test_missing_modules_are_named(self):
        peer = peer_list.Peer(("json", "no_such_module", "no_such.module"))
        self.assertEqual(peer.missing(), ["no_such_module", "no_such.module"])

    def test_unknown_names_are_refused_with_the_known_ones(self):
        done = subprocess.run([sys.executable, str(COMPARE / "compare.py"), "--build=.",
                               "--nets=lenett"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("'lenett' is not one of lenet, cifar10_quick", done.stderr)


if __name__ == "__main__":
    unittest.main()
