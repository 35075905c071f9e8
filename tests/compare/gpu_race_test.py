"""Tests of bench/gpu with contestants that only pretend. Needs nothing but Python."""
import argparse
import pathlib
import stat
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "gpu"))

# pylint: disable=wrong-import-position
import crema_side
import nets
import prototxt
import race
import report


class Pretender:
    """Runs `rate` passes a second, until it has made so many calls."""

    def __init__(self, rate, learned=10, calls=100):
        self.rate, self.learned, self.calls = rate, learned, calls
        self.macs = 5e9
        self.closed = False

    def passes(self, count, _wait):
        self.calls -= 1
        if self.calls < 0:
            raise RuntimeError("broken")
        return count / self.rate

    def close(self):
        self.closed = True


def arguments(**values):
    defaults = dict(nets="lenet", modes="train", precisions="bf16", batches="8",
                    variants="eager,compiled", turns=3, turn_seconds=0.1,
                    device="cuda", gpu=0, autotune=5)
    return argparse.Namespace(**{**defaults, **values})


class Text(unittest.TestCase):
    def test_reads_fields_of_all_kinds(self):
        net = prototxt.parse('# c\nname: "a # b" layer { x: 1.5 y: true z { k: MAX } z { k: -2 } }')
        self.assertEqual(net.get("name"), "a # b")
        layer = net.sub("layer")
        self.assertEqual((layer.get("x"), layer.get("y")), (1.5, True))
        self.assertEqual([z.get("k") for z in layer.all("z")], ["MAX", -2])
        self.assertIsNone(layer.sub("absent").get("k"))

    def test_takes_the_layers_of_a_phase(self):
        text = 'layer { name: "a" include { phase: TEST } } layer { name: "b" } ' \
               'layer { name: "c" exclude { phase: TEST } }'
        names = {phase: [layer.get("name") for layer in prototxt.layers(text, phase)]
                 for phase in ("TRAIN", "TEST")}
        self.assertEqual(names, {"TRAIN": ["b", "c"], "TEST": ["a", "b"]})

    def test_nets_have_the_inputs_that_races_give(self):
        with tempfile.TemporaryDirectory() as folder:
            nets.write_gpt(folder)
            for net in nets.NETS.values():
                models = folder if net.name == nets.GPT else ROOT / "models"
                for mode, phase in (("train", "TRAIN"), ("infer", "TEST")):
                    layers = prototxt.layers(net.path(models, mode).read_text(), phase)
                    tops = [top for layer in layers
                            if layer.get("type") in ("Data", "ImageData", "Input")
                            for top in layer.all("top")]
                    self.assertEqual(tops, list(net.shapes(2, mode)), (net.name, mode))


class Races(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.NamedTemporaryFile(suffix=".md")
        self.addCleanup(self.out.close)
        patch = unittest.mock.patch.object(report, "_conditions", lambda *_: ["pretended"])
        patch.start()
        self.addCleanup(patch.stop)

    def hold(self, contestants, seconds=100, **values):
        course = race.Course(arguments(out=self.out.name, **values), ROOT / "models",
                             {"bf16": 1000.0}, time.monotonic() + seconds)
        def start(name, _line, autotune):
            made = contestants[name]
            if isinstance(made, dict):
                made = made[autotune]
            if isinstance(made, Exception):
                raise made
            return made
        with unittest.mock.patch.object(course, "start", start), \
                unittest.mock.patch("builtins.print"):
            course.run()
        return course.lines, pathlib.Path(self.out.name).read_text()

    def test_the_most_important_come_first(self):
        order = nets.races(list(nets.NETS), ["train", "infer"], ["bf16", "fp32"], [1, 256])
        self.assertEqual(order[0], nets.Race("resnet50", "train", "bf16", 256))
        self.assertEqual(len(order), len(set(order)))
        self.assertEqual(len(order), 8 * 2 * 2 * 2 + 4)  # of the first, others have other batches, and FP16

    def test_rates_and_ratios(self):
        contestants = {"crema": Pretender(30), "eager": Pretender(10), "compiled": Pretender(20)}
        lines, text = self.hold(contestants)
        line = lines[-1]
        self.assertEqual(line.race, nets.Race("lenet", "train", "bf16", 8))
        self.assertAlmostEqual(line.rate("crema"), 240)
        self.assertAlmostEqual(line.ratio("eager"), 3)
        # 2 operations a product, 3 times as many in training, of 1e12 a second.
        self.assertAlmostEqual(line.share, 240 * 2 * 5e9 / 8 * 3 / 1e12)
        self.assertIn("| lenet | train | bf16 | 8 | 240.0 | 80.0 | 160.0 | 3.00 | 1.50 | 90.0 % |",
                      text)
        self.assertTrue(all(contestant.closed for contestant in contestants.values()))

    def test_another_net_is_not_timed(self):
        other = Pretender(10, learned=11)
        lines, text = self.hold({"crema": Pretender(30), "eager": other,
                                 "compiled": Pretender(20)})
        self.assertIsNone(lines[-1].rate("eager"))
        self.assertIn("eager learns 11 numbers, crema 10", text)
        self.assertTrue(other.closed)

    def test_one_that_fails_leaves_the_others_their_race(self):
        lines, text = self.hold({"crema": Pretender(30), "eager": Pretender(10),
                                 "compiled": RuntimeError("no | compiler\nlong story")})
        self.assertAlmostEqual(lines[-1].ratio("eager"), 3)
        self.assertIn("compiled: no / compiler |", text)

    def test_without_autotuning_crema_tries_again(self):
        lines, text = self.hold({"crema": {5: RuntimeError("no engine"), 0: Pretender(30)},
                                 "eager": Pretender(10), "compiled": Pretender(20)})
        self.assertAlmostEqual(lines[-1].ratio("eager"), 3)
        self.assertIn("crema, autotuned: no engine |", text)

    def test_one_that_breaks_on_the_way_leaves_the_others_their_race(self):
        broken = Pretender(20, calls=2)
        lines, text = self.hold({"crema": Pretender(30), "eager": Pretender(10),
                                 "compiled": broken})
        self.assertAlmostEqual(lines[-1].ratio("eager"), 3)
        self.assertIsNone(lines[-1].rate("compiled"))
        self.assertIn("compiled: broken |", text)
        self.assertTrue(broken.closed)

    def test_nothing_is_compiled_when_little_time_is_left(self):
        lines, text = self.hold({"crema": Pretender(30), "eager": Pretender(10)},
                                seconds=race.COMPILING / 2)
        self.assertAlmostEqual(lines[-1].ratio("eager"), 3)
        self.assertIn("compiled: no time was left |", text)

    def test_without_time_races_are_left_out_by_name(self):
        _, text = self.hold({}, seconds=0)
        self.assertIn("| lenet | train | bf16 | 8 |  |  |  |  |  |  |  | no time was left |", text)


class Process(unittest.TestCase):
    def make(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name) / "gpu_race"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return crema_side.Crema(str(program), nets.NETS["lenet"],
                                nets.Race("lenet", "train", "bf16", 8), "m.prototxt", 0, 20, 5)

    def test_lines_are_answered(self):
        crema = self.make('echo \'{"macs": 1, "learned": 2, "implementations": {"cuda": 3}}\'\n'
                          'while read verb count wait; do\n'
                          '  if [ $verb = state ]; then echo "{\\"memory_mib\\": 7}"; continue; fi\n'
                          '  echo "{\\"seconds\\": $count.$wait}"\ndone\n')
        self.addCleanup(crema.close)
        self.assertEqual((crema.learned, crema.passes(4, True)), (2, 4.1))
        self.assertEqual(crema.state(), {"memory_mib": 7})

    def test_much_on_the_error_output_does_not_stop_it(self):
        crema = self.make('echo \'{"macs": 1, "learned": 2, "implementations": {}}\'\nread line\n'
                          'head -c 300000 /dev/zero >&2\necho "{\\"seconds\\": 1}"\n')
        self.addCleanup(crema.close)
        self.assertEqual(crema.passes(1, False), 1)

    def test_the_last_line_of_a_failure_is_told(self):
        with self.assertRaisesRegex(RuntimeError, "^error: no memory$"):
            self.make("echo some log >&2; echo error: no memory >&2; exit 4\n")


if __name__ == "__main__":
    unittest.main()
