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
import compare
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
        self.timeout = 100

    def prepare(self):
        if "unprepared" in self.values:
            raise process.Failed(self.values["unprepared"])

    def start(self, checked=False):
        del checked
        self.starts += 1
        command = [sys.executable, str(HERE / "pretender.py"), json.dumps(self.values)]
        return process.Process(command, 1, self.log, self.timeout)


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
                                            precision="fp32", threads=2, folder=self.folder)

        # Machines that run tests are busy; no start of a pretender is a long one.
        patch = unittest.mock.patch.object(race, "LONG_START_SECONDS", 1000)
        patch.start()
        self.addCleanup(patch.stop)

    def hold(self, *contestants, turns=3, cold_starts=1):
        return race.hold(self.course, self.reference, contestants, turns, 0.002, cold_starts)

    def entries(self, runners, **conditions):
        return [report.entry(self.course, runner, runners[0], conditions) for runner in runners]

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

    def test_who_answers_nonsense_or_nothing_is_out_and_the_others_go_on(self):
        hung = Pretender(self, "hung", hangs_at="memory")
        hung.timeout = 1
        absent = Pretender(self, "absent")
        absent.prepare = lambda: (self.folder / "absent").stat()
        runners = self.hold(Pretender(self, "crema"), hung, absent,
                            Pretender(self, "partial", says={"run": '{"seconds": [0.'}),
                            Pretender(self, "chatty", says={"run": "Hello.\n"}),
                            Pretender(self, "list", says={"run": "[1]\n"}),
                            Pretender(self, "empty", says={"run": "{}\n"}),
                            Pretender(self, "null", says={"run": '{"seconds": null}\n'}),
                            Pretender(self, "timeless", seconds=0),
                            Pretender(self, "nameless", says={"run": '{"error": ""}\n'}))
        reasons = {runner.name: runner.why_out for runner in runners}
        self.assertEqual(reasons["crema"], "")
        self.assertIn("no answer in 1 s", reasons["hung"])
        self.assertIn("FileNotFoundError", reasons["absent"])
        self.assertIn("which is no object of JSON", reasons["partial"])
        self.assertIn("'Hello.', which is no object of JSON", reasons["chatty"])
        self.assertIn("'[1]', which is no object of JSON", reasons["list"])
        self.assertIn("KeyError: 'seconds'", reasons["empty"])
        self.assertIn("TypeError", reasons["null"])
        self.assertIn("2 runs took [0, 0] seconds", reasons["timeless"])
        self.assertIn("ended with status 0", reasons["nameless"])
        self.assertEqual(len(runners[0].turns), 3)
        self.assertEqual(sum("skipped" in e for e in self.entries(runners)), 9)

    def test_preparing_may_not_take_for_ever_nor_end_in_half_a_line(self):
        log = self.folder / "log"
        with self.assertRaisesRegex(process.Failed, "not done in 0.1 s"):
            process.run_once([sys.executable, "-c", "import signal; signal.pause()"], 1, log, 0.1)
        with self.assertRaisesRegex(process.Failed, "ended with status 1"):
            process.run_once([sys.executable, "-c", "print('{\"err'); exit(1)"], 1, log)

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
        report.write_markdown(path, self.entries(runners))
        text = path.read_text(encoding="utf-8")
        self.assertIn("| lenet | infer | 8 | fp32 | 2 | 1 | – | 2.00 (2.00 to 2.00) | – |", text)
        self.assertIn("- lenet infer 8 fp32, 2 threads, liar: results differ", text)
        report.write_json(path, self.entries(runners))
        values = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual([e["contestant"] for e in values["entries"]], ["crema", "peer", "liar"])

    def test_every_line_of_a_table_has_as_many_cells(self):
        path = self.folder / "compare"
        for peers in ((), ("one",), ("one", "two")):
            everyone = [Pretender(self, name) for name in ("crema", *peers)]
            entries = self.entries(self.hold(*everyone, turns=1), date="1")
            others = [{**e, "batch": 1, "conditions": {"date": "2"}} for e in entries]
            report.write_markdown(path, entries + others)
            tables = [part.splitlines() for part in path.read_text(encoding="utf-8").split("\n\n")
                      if part.startswith("|")]
            self.assertEqual(len(tables), 3)
            for table in tables:
                self.assertEqual(len({line.count("|") for line in table}), 1, table)
                self.assertNotIn("|  |", table[0])

    def test_conditions_that_differ_are_told_by_race(self):
        runners = self.hold(Pretender(self, "crema"), turns=1)
        older = self.entries(runners, date="1st", load="0.1", machine="this")
        self.course.threads = 4
        newer = self.entries(runners, date="2nd", load="0.9", machine="this")
        path = self.folder / "compare"
        report.write_json(path, report.replace(older, newer))
        entries = report.read_json(path)
        self.assertEqual([(e["threads"], e["conditions"]["load"]) for e in entries],
                         [(2, "0.1"), (4, "0.9")])
        report.write_markdown(path, entries)
        text = path.read_text(encoding="utf-8")
        self.assertIn("\n- machine: this\n", text)
        self.assertNotIn("- date", text)
        self.assertIn("| net | mode | batch | precision | threads | date | load |", text)
        self.assertIn("| lenet | infer | 8 | fp32 | 2 | 1st | 0.1 |", text)
        self.assertIn("| lenet | infer | 8 | fp32 | 4 | 2nd | 0.9 |", text)

        report.write_markdown(path, newer)
        text = path.read_text(encoding="utf-8")
        self.assertIn("- date: 2nd\n- load: 0.9\n- machine: this\n", text)
        self.assertNotIn("| date |", text)

    def test_results_with_one_header_are_still_read(self):
        path = self.folder / "compare.json"
        path.write_text('{"about": {"threads": 2, "date": "1st"}, "entries": [{"net": "lenet"}]}',
                        encoding="utf-8")
        self.assertEqual(report.read_json(path), [
            {"threads": 2, "conditions": {"date": "1st"}, "net": "lenet"}])

    def test_new_results_replace_those_of_the_same_race_only(self):
        older = self.entries(self.hold(Pretender(self, "crema"), Pretender(self, "gone")))
        newer = self.entries(self.hold(Pretender(self, "crema", seconds=0.002)))
        other = [{**entry, "batch": 1} for entry in older]
        path = self.folder / "compare.json"
        self.assertEqual(report.read_json(path), [])
        report.write_json(path, other + older)
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
        entries = self.entries(self.hold(Pretender(self, "crema")))
        entries += [{**entry, "threads": 1} for entry in entries]
        report.write_markdown(path, entries, recorded.read(table))
        text = path.read_text(encoding="utf-8")
        self.assertIn("| fp32 | 2 | 1 | 4.50 (4.5 ms) |", text)
        self.assertIn("| fp32 | 1 | 1 | 9.00 (9 ms) |", text)


class ListsTest(unittest.TestCase):

    def test_every_peer_has_a_module_and_every_net_its_files(self):
        for name in peer_list.PEERS:
            self.assertTrue((COMPARE / "peers" / f"{name}.py").exists(), name)
        for net in nets.NETS.values():
            for path in () if net.onnx else (net.train, net.deploy):
                self.assertTrue((COMPARE.parents[1] / path).exists(), path)

    def test_shapes_are_written_as_the_runner_takes_them(self):
        net = nets.NETS["lenet"]
        self.assertEqual(net.shapes(8, "train"), "data:8,1,28,28;label:8")
        self.assertEqual(net.shapes(8, "infer"), "data:8,1,28,28")
        self.assertEqual(net.bounds(), "label:10")
        self.assertEqual(nets.NETS["silero_vad"].shapes(8, "infer"),
                         "input:8,576;h:1,1,128;c:1,1,128")

    def test_nets_that_come_as_onnx_are_not_trained_and_not_for_everyone(self):
        options = types.SimpleNamespace(modes=["infer", "train"], batches=None,
                                        precisions=["fp32"])
        net = nets.NETS["tv_resnet50"]
        self.assertEqual(list(compare.courses_of(net, options)),
                         [("infer", 1, "fp32"), ("infer", 8, "fp32")])
        course = types.SimpleNamespace(mode="infer", precision="fp32", net=net)
        able = [name for name, peer in peer_list.PEERS.items() if peer.can(course)]
        self.assertEqual(able, ["onnx_runtime", "open_vino", "opencv_dnn"])

    def test_missing_modules_are_named(self):
        peer = peer_list.Peer(("json", "no_such_module", "no_such.module"))
        self.assertEqual(peer.missing(), ["no_such_module", "no_such.module"])


class CommandTest(unittest.TestCase):
    """compare.py as a whole, whose runner is a pretender."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        for path in ("bin/compare_runner", "proto/crema.desc"):
            (self.folder / path).parent.mkdir()
            (self.folder / path).touch()
        (self.folder / "bin/compare_runner").chmod(0o755)
        self.pretend()

    def pretend(self, **values):
        values = json.dumps({"name": "crema", "diary": str(self.folder / "diary"), **values})
        (self.folder / "bin/compare_runner").write_text(
            f"#!/bin/sh\nexec '{sys.executable}' '{HERE}/pretender.py' '{values}' \"$@\"\n",
            encoding="utf-8")

    def compare(self, *flags):
        """Ends; whichever peers there are, OpenCV does not train."""
        return subprocess.run(
            [sys.executable, str(COMPARE / "compare.py"), f"--build={self.folder}",
             f"--results={self.folder}/results", "--nets=lenet", "--modes=train",
             "--peers=opencv_dnn", "--turns=1", "--turn-seconds=0.001", "--cold-starts=1", *flags],
            capture_output=True, text=True, check=False)

    def refused(self, *flags):
        """Returns the message in its last line."""
        done = self.compare(*flags)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr.splitlines()[-1]

    def test_unknown_names_are_refused_with_the_known_ones(self):
        self.assertIn("'lenett' is not one of lenet, cifar10_quick", self.refused("--nets=lenett"))

    def test_counts_below_one_and_times_of_nothing_are_refused(self):
        for flag in ("--turns=0", "--cold-starts=0", "--batches=0", "--batches=1,-8", "--threads=0",
                     "--turn-seconds=0", "--turn-seconds=nan", "--timeout=0", "--turns=many"):
            name, _, value = flag.partition("=")
            message = self.refused(flag)
            self.assertIn(f"argument {name}: '{value.split(',')[-1]}' is not a", message)

    def test_files_and_folders_that_are_not_there_are_named_in_one_line(self):
        results = self.folder / "results"
        results.mkdir()
        (results / "compare.json").write_text('{"ent', encoding="utf-8")
        table = self.folder / "table"
        table.write_text("net\tmode\nlenet\tinfer\n", encoding="utf-8")
        for flag, expected in ((f"--build={self.folder}/none", "none/bin/compare_runner; build"),
                               (f"--runner={self.folder}/none", f"no {self.folder}/none; build"),
                               (f"--caffe={self.folder}/none", "--caffe: [Errno 2]"),
                               (f"--caffe={table}", "KeyError: 'batch'"),
                               ("--add", "--add: cannot read"),
                               (f"--results={table}", "--results: [Errno 17]"),
                               (f"--work={table}", "--work: [Errno 17]")):
            done = self.compare(flag)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(expected, done.stderr)

    def test_a_folder_to_keep_things_in_may_be_used_again(self):
        work = self.folder / "work"
        stale = work / "lenet-train-64-fp32/net.onnx"
        for _ in range(2):
            done = self.compare(f"--work={work}")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(stale.parent.exists())
            self.assertFalse(stale.exists())
            stale.touch()

    def test_an_older_build_takes_turns_under_its_own_name(self):
        done = self.compare(f"--before={self.folder}/none")
        self.assertIn(f"no {self.folder}/none; build", done.stderr)
        done = self.compare(f"--before={self.folder}/bin/compare_runner")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        entries = report.read_json(self.folder / "results/compare.json")
        self.assertEqual([e["contestant"] for e in entries], ["crema", "crema_before"])
        self.assertIn("times_crema", entries[1])

    def test_races_with_other_threads_are_added(self):
        self.compare("--add")
        done = self.compare("--add", "--threads=1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        entries = report.read_json(self.folder / "results/compare.json")
        self.assertEqual([e["threads"] for e in entries], [2, 1])
        self.assertIn("load at the start", entries[0]["conditions"])

    def test_a_runner_that_hangs_or_cannot_be_started_is_told(self):
        self.pretend(hangs_at="inputs")
        done = self.compare("--timeout=1")
        self.assertIn("lenet: failed: no answer in 1 s", done.stdout)
        self.assertNotIn("Traceback", done.stderr)
        (self.folder / "bin/compare_runner").chmod(0o644)
        done = self.compare()
        self.assertIn("lenet: failed: [Errno 13]", done.stdout)
        self.assertEqual(done.stderr, "not raced, or not to the end: lenet\n")


if __name__ == "__main__":
    unittest.main()
