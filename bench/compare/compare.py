"""Races Crema against its peers; README.md tells how. Started by bench/compare.sh.

Needs nothing but Python itself; a peer runs where its modules can be imported.
"""
import argparse
import datetime
import importlib.metadata
import math
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import contestants
import course
import nets
import peer_list
import process
import race
import recorded
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder")
    parser.add_argument("--runner", type=pathlib.Path, help="default: BUILD/bin/compare_runner")
    parser.add_argument("--before", type=pathlib.Path,
                        help="compare_runner of an older build, to race against")
    parser.add_argument("--nets", type=_names(nets.NETS), default=list(nets.NETS))
    parser.add_argument("--modes", type=_names(("infer", "train")), default=["infer", "train"])
    parser.add_argument("--batches", type=_numbers, help="of inference; default: 1,8,32")
    parser.add_argument("--precisions", type=_names(("fp32", "bf16")), default=["fp32"])
    parser.add_argument("--peers", type=_names(peer_list.PEERS), default=list(peer_list.PEERS))
    parser.add_argument("--threads", type=_count, default=2)
    parser.add_argument("--turns", type=_count, default=7, help="of each contestant")
    parser.add_argument("--turn-seconds", type=_seconds, default=0.5, help="how long one lasts")
    parser.add_argument("--cold-starts", type=_count, default=3, help="fresh processes of each")
    parser.add_argument("--autotune", type=float, default=0,
                        help="seconds that Crema may measure its rows for; 0: estimates decide")
    parser.add_argument("--timeout", type=_seconds, default=process.TIMEOUT_SECONDS,
                        help="seconds; who takes longer for an answer is out")
    parser.add_argument("--caffe", type=pathlib.Path, help="table of Caffe's times (recorded.py)")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results",
                        help="folder of compare.md and compare.json")
    parser.add_argument("--add", action="store_true", help="keep the results of other races there")
    parser.add_argument("--work", type=pathlib.Path, help="folder to keep everything in")
    return parser.parse_args()


def _names(known):
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(known)}")
        return names
    return parse


def _count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 on")
    return int(text)


def _numbers(text):
    return [_count(part) for part in text.split(",")]


def _seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


class Refused(Exception):
    """The request cannot be fulfilled at all."""


def courses_of(net, options):
    """(mode, batch, precision) of each race of a net."""
    for mode in options.modes:
        if mode == "train" and net.onnx:
            continue
        batches = [net.train_batch] if mode == "train" else options.batches or net.infer_batches
        for batch in batches:
            for precision in options.precisions:
                yield mode, batch, precision


def available(options):
    """The peers that can be imported; says which cannot."""
    there = []
    for name in options.peers:
        missing = peer_list.PEERS[name].missing()
        if missing:
            print(f"{name}: skipped, there is no {', '.join(missing)}", flush=True)
        else:
            there.append(name)
    return there


def runner_of(options):
    return options.runner or options.build / "bin/compare_runner"


def descriptors_of(options):
    return options.build / "proto/crema.desc"


def check_build(peers, options):
    """Throws Refused if it lacks a file."""
    before = [options.before] if options.before else []
    onnx = any(nets.NETS[name].onnx for name in options.nets)
    importer = [options.build / "bin/import"] if onnx else []
    for path in [runner_of(options), *before, *importer,
                 *([descriptors_of(options)] if peers else [])]:
        if not path.is_file():
            raise Refused(f"there is no {path}; build with -DCREMA_BUILD_BENCH=ON, and give that "
                          "folder as --build")


def read_if_can_be(flag, path, read):
    """Returns the result of read(path). Throws Refused if it is missing or another file."""
    try:
        return read(path)
    except OSError as error:
        raise Refused(f"{flag}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"{flag}: cannot read {path}: {type(error).__name__}: {error}") from None


def make_folder(flag, path):
    """Throws Refused."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{flag}: {error}") from None


def hold_race(track, peers, options, conditions):
    """The entries of one race."""
    able = [name for name in peers if peer_list.PEERS[name].can(track)]
    reference = track.set_up()
    everyone = [contestants.Crema(track), *(contestants.Peer(name, track) for name in able)]
    if options.before:
        everyone.insert(1, contestants.Crema(track, "crema_before", options.before))
    runners = race.hold(track, reference, everyone, options.turns, options.turn_seconds,
                        options.cold_starts)
    return [report.entry(track, runner, runners[0], conditions) for runner in runners]


def tell(entries):
    for e in entries:
        if "skipped" in e:
            print(f"  {e['contestant']:20} out: {e['skipped'].splitlines()[0][:200]}", flush=True)
            continue
        ratio = f"{e['times_crema'][1]:.2f}" if "times_crema" in e else "–"
        print(f"  {e['contestant']:20} {e['median_ms']:9.2f} ms ({e['q1_ms']:.2f} to "
              f"{e['q3_ms']:.2f}), {ratio} times Crema; {e['peak_rss_mb']:.0f} MB, first result "
              f"after {e['cold_start_ms']:.0f} ms, difference {e['error']:.1g}", flush=True)


def race_net(net, peers, options, work, conditions):
    """Yields the entries of each race of a net."""
    runner = runner_of(options)
    weights = work / f"{net.name}.caffemodel"
    if not net.onnx:
        course.make_weights(net, ROOT, runner, options.threads, weights, options.timeout)
    for mode, batch, precision in courses_of(net, options):
        track = course.Course(
            net=net, mode=mode, batch=batch, precision=precision, threads=options.threads,
            runner=runner, descriptors=descriptors_of(options), root=ROOT, weights=weights,
            importer=options.build / "bin/import",
            folder=work / f"{net.name}-{mode}-{batch}-{precision}", timeout=options.timeout,
            autotune=options.autotune)
        print(track.name, flush=True)
        entries = hold_race(track, peers, options, conditions)
        tell(entries)
        yield entries
        if options.work is None:
            shutil.rmtree(track.folder)
    if options.work is None:
        weights.unlink(missing_ok=True)


def _version(module):
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")


def _sgemm(options):
    """The rate of a large product with as many threads, to scale other times by; empty: unknown."""
    program = options.build / "bin/sgemm_rate"
    if not program.exists():
        return ""
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    wanted = f", {options.threads} threads: "
    return next((line.partition(wanted)[2] for line in done.stdout.splitlines() if wanted in line),
                "")


def describe(options):
    """The conditions of the races that are held now."""
    packages = ("torch", "onnxruntime", "openvino", "ncnn", "opencv-python-headless")
    versions = [f"{name} {_version(name)}" for name in packages if _version(name)]
    autotune = {"autotune": f"at most {options.autotune} s"} if options.autotune > 0 else {}
    return {"date": datetime.date.today().isoformat(),
            "machine": f"{_processor()}, {os.cpu_count()} processors",
            "load at the start": f"{os.getloadavg()[0]:.2f}",
            "sgemm": _sgemm(options) or "not measured",
            "turns": f"{options.turns} of at least {options.turn_seconds} s, "
                     f"{options.cold_starts} cold starts",
            "peers": ", ".join(versions) or "none", **autotune}


def hold_all(options):
    """Throws Refused."""
    peers = available(options)
    check_build(peers, options)
    conditions = describe(options)
    json_file = options.results / "compare.json"
    entries = read_if_can_be("--add", json_file, report.read_json) if options.add else []
    failed = []
    caffe = read_if_can_be("--caffe", options.caffe, recorded.read) if options.caffe else {}
    make_folder("--results", options.results)
    with tempfile.TemporaryDirectory(prefix="compare-") as temporary:
        work = options.work or pathlib.Path(temporary)
        make_folder("--work", work)
        for name in options.nets:
            try:
                for more in race_net(nets.NETS[name], peers, options, work, conditions):
                    entries = report.replace(entries, more)
                    report.write_json(json_file, entries)
                    report.write_markdown(options.results / "compare.md", entries, caffe)
            except (process.Failed, OSError) as error:
                print(f"{name}: failed: {error}", flush=True)
                failed.append(name)
    if failed:
        sys.exit(f"not raced, or not to the end: {', '.join(failed)}")
    print(f"written: {options.results}/compare.md and compare.json")


def main():
    options = parse_arguments()
    try:
        hold_all(options)
    except Refused as error:
        print(f"compare: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
