"""Prints OpenVINO's time in a finished race by operation, one a line, then sums by kind.

Usage: profile_open_vino.py CASE_JSON [RUNS]
CASE_JSON lies in a folder of `compare.sh --work=DIR`; medians of RUNS (200) passes. Counting takes
time itself, so the sum is a little more than a pass takes without.
"""
import collections
import statistics
import sys

import openvino

import case as cases
from peers import open_vino


def main():
    race = open_vino.Race(cases.Case(sys.argv[1]), PERF_COUNT="YES")
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    times = collections.defaultdict(list)
    kinds = {}
    for turn in range(runs + 20):
        race.run()
        for op in race.request.profiling_info if turn >= 20 else ():
            if op.status != openvino.ProfilingInfo.Status.EXECUTED:
                continue
            times[op.node_name].append(op.real_time.total_seconds() * 1e6)
            kinds[op.node_name] = f"{op.node_type} {op.exec_type}"
    sums = collections.Counter()
    for name, values in times.items():
        median = statistics.median(values)
        sums[kinds[name]] += median
        print(f"{median:9.1f} us  {kinds[name]:45} {name}")
    print()
    for kind, total in sums.most_common():
        print(f"{total:9.1f} us  {100 * total / sums.total():5.1f} %  {kind}")
    print(f"{sums.total():9.1f} us in all")


if __name__ == "__main__":
    main()
