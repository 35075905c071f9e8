"""bench/scale: the model of an iteration on several ranks, against results by hand."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench" / "scale"))
import ddp_race  # noqa: E402
import measured_nets  # noqa: E402
import model  # noqa: E402
from model import Layer, Sum  # noqa: E402

MB = 1_000_000


class Buckets(unittest.TestCase):
    def test_begin_with_the_last_layers_and_are_cut(self):
        layers = [Layer(1, 1, 4 * MB), Layer(1, 1, 0), Layer(1, 1, 60 * MB), Layer(1, 1, 1 * MB)]
        self.assertEqual(list(model.buckets(layers, 25 * MB)),
                         [(25 * MB, 2), (25 * MB, 2), (11 * MB, 2), (4 * MB, 0)])


class Iteration(unittest.TestCase):
    LAYERS = [Layer(1, 2, 4 * MB), Layer(1, 2, 25 * MB)]

    def test_hides_sums_in_the_backward_pass(self):
        # Layers end at 4 s and 6 s. The first sum ends at 5 s, the second at 7 s.
        result = model.iterate(self.LAYERS, 0.5, lambda size: Sum(0, 1), 25 * MB)
        self.assertAlmostEqual(result.seconds, 7.5)
        self.assertAlmostEqual(result.exposed, 1)
        self.assertAlmostEqual(result.sums, 2)

    def test_shares_the_core_with_sums(self):
        # The first sum takes half of the core for a second, so the layer ends at 6.5 s.
        result = model.iterate(self.LAYERS, 0, lambda size: Sum(0, 1, 0.5), 25 * MB)
        self.assertAlmostEqual(result.seconds, 7.5)

    def test_sums_one_bucket_after_the_other(self):
        layers = [Layer(1, 2, 0), Layer(1, 2, 75 * MB)]
        result = model.iterate(layers, 0, lambda size: Sum(0.5, 1), 25 * MB)
        self.assertAlmostEqual(result.seconds, 4 + 3 * 1.5)

    def test_waits_for_other_ranks_on_its_core(self):
        result = model.iterate(self.LAYERS, 1, lambda size: Sum(0, 0), 25 * MB, slowdown=2)
        self.assertAlmostEqual(result.seconds, 14)


class Sums(unittest.TestCase):
    def test_of_this_project_send_each_piece_twice(self):
        cost = model.direct(4, rate=1e6, delay=0.001, processor=1e-9)(4e6)
        self.assertAlmostEqual(cost.wire, 6)
        self.assertAlmostEqual(cost.processor, 0.006)
        self.assertAlmostEqual(cost.latency, 2 * (0.003 + 3 * model.MESSAGE))

    def test_of_many_gpus_are_not_faster(self):
        for cluster in model.CLUSTERS:
            seconds = [sum((c.latency, c.wire)) for c in
                       (model.nccl(cluster, n)(25e6) for n in (8, 64, 256, 1024))]
            self.assertEqual(seconds, sorted(seconds))


class Nets(unittest.TestCase):
    def test_have_one_constant_input_and_no_test_phase(self):
        for net in measured_nets.NETS.values():
            text = measured_nets.text_of(net)
            self.assertEqual(text.count("DummyData"), 1)
            self.assertNotIn("Accuracy", text)
            self.assertNotIn("TEST", text)
            self.assertEqual(text.count("SoftmaxWithLoss"), 1)


class Race(unittest.TestCase):
    def test_reads_the_blocks_of_the_log(self):
        log = ("I1127 crema:0] Iteration 0 (0 iter/s, 0.04s/20 iters), loss = 2.4\n"
               "I1127 crema:0] Iteration 20 (40 iter/s, 0.5s/20 iters), loss = 2.3\n")
        self.assertEqual(ddp_race.LINE.findall(log)[1], ("20", "0.5", "20"))


if __name__ == "__main__":
    unittest.main()
