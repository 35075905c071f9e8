# Reads the event files of a run folder with TensorBoard's own reader and prints what it found.
import sys

from tensorboard.backend.event_processing import event_accumulator

ALL = 0
events = event_accumulator.EventAccumulator(
    sys.argv[1],
    size_guidance={event_accumulator.SCALARS: ALL, event_accumulator.HISTOGRAMS: ALL})
events.Reload()
tags = events.Tags()
timed = ("train/samples_per_second", "train/wait_share", "train/epoch")
print("scalars", *sorted(tag for tag in tags["scalars"] if tag not in timed))
print("histograms", *sorted(tags["histograms"]))
for tag in ("train/lr", "test_0/loss"):
    print("steps", tag, *(e.step for e in events.Scalars(tag)))
print("steps weights/out/weight", *(e.step for e in events.Histograms("weights/out/weight")))
print("lr %.3g" % events.Scalars("train/lr")[0].value)
histogram = events.Histograms("weights/out/weight")[0].histogram_value
assert sum(histogram.bucket) == histogram.num
print("weights/out/weight: %d values in %d buckets" % (histogram.num, len(histogram.bucket)))
print("graph", *("%s:%s%s" % (n.name, n.op, "(%s)" % ",".join(n.input) if n.input else "")
                 for n in events.Graph().node))
