#!/usr/bin/env python3
"""Runs the checks that need a GPU, in the folder that gather.sh made.

  run.py OUT [--seconds=520] [--benchmark=150] [--only=CHECK,CHECK] [--filter=PATTERN]
  run.py --programs     prints the names of the programs that it needs
  run.py --skip=WHY     reports each check as skipped

Writes gpu_check.md, benchmark.md and a log of each check that did not pass to OUT. Exit status 1 if a
check failed, or was not finished in --seconds. --benchmark: the seconds that are kept for the last check.
--filter: the tests to run, in gtest's form.

Tests run in several processes, some in each. After a crash, or an error that spoils the CUDA context,
the tests after it run in a new process. Those that failed so run once more under memcheck.
"""
import argparse
import dataclasses
import glob
import os
import pathlib
import queue
import re
import shutil
import signal
import site
import subprocess
import sys
import threading
import time

PROCESSES = 12
TEST_SECONDS = 100  # for the tests of one process
SPOILS = re.compile(r"cudaErrorIllegal|cudaErrorLaunch|cudaErrorMisaligned|cudaErrorAssert|"
                    r"cudaErrorHardware|cudaErrorInvalidPc|cudaErrorInvalidAddressSpace|GPU was lost")
EACH = "*KeepsTheContract"


@dataclasses.dataclass(frozen=True)
class Tests:
    """Tests of a program; `each`: the most in one process. `alone`: with no other process on the GPU."""
    name: str
    program: str
    filter: str = "*"
    each: int = 30
    alone: bool = False


@dataclasses.dataclass(frozen=True)
class Sanitizer:
    """compute-sanitizer on tests, in several processes at once, each with a share of them."""
    name: str
    tool: str
    must: str  # a tool that does nothing must fail
    program: str
    filter: str
    processes: int = 1
    seconds: int = 150


CHECKS = [
    Tests("sessions", "gpu_test", "-GpuMemory*", each=8),
    Tests("recorded cases", "conformance_test", "Gpu*.*"),
    Tests("layers", "layers_test", EACH + "*"),
    Tests("memory", "gpu_test", "GpuMemory*", alone=True),
    Tests("random cases", "implementations_test", each=2),
    Sanitizer("memcheck of layers", "memcheck", "ERROR SUMMARY: 0 errors", "layers_test", EACH + "*", 8),
    Sanitizer("memcheck of solvers", "memcheck", "ERROR SUMMARY: 0 errors", "gpu_test",
              "GpuUpdate*:GpuSolver.AResumed*"),
    Sanitizer("racecheck", "racecheck", "RACECHECK SUMMARY: 0 hazards", "gpu_test",
              "GpuUpdate*:*CarriedState*:DetectionImplementations*"),
    Sanitizer("racecheck of layers", "racecheck", "RACECHECK SUMMARY: 0 hazards", "layers_test",
              ":".join(EACH + "/" + kind for kind in ("*Norm*", "*Loss*", "Softmax*", "Red*")), 4),
]
NAMES = ["devices", *(check.name for check in CHECKS), "benchmark"]


def cuda_folders():
    """Returns the folders of CUDA's libraries: of a toolkit, or of Python packages."""
    found = [folder for folder in ("/usr/local/cuda/lib64", "/usr/local/cuda/lib") if os.path.isdir(folder)]
    for folder in dict.fromkeys([*site.getsitepackages(), *sys.path]):
        found += glob.glob(folder + "/nvidia/*/lib")
    return found


def environment(folder):
    theirs = os.environ.get("LD_LIBRARY_PATH", "")
    path = ":".join(filter(None, [str(folder / "lib"), *cuda_folders(), theirs]))
    cuda = "/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
    return {
        "CREMA_SECONDS_A_TYPE": "15", **os.environ, "LD_LIBRARY_PATH": path,
        "CREMA_REQUIRE_GPU": "1",  # tests fail instead of turning to the stand-in
        "CREMA_CONFORMANCE": str(folder / "conformance"), "OMP_WAIT_POLICY": "passive",
        "PATH": f"{os.environ['PATH']}:{cuda}"}


class Run:
    """Processes that must end by `end`, in seconds of time.monotonic()."""

    def __init__(self, folder, end):
        self.folder = folder
        self.end = end
        self.environment = environment(folder)

    def left(self):
        return self.end - time.monotonic()

    def process(self, command, seconds, **more):
        """Returns exit status (124: over time) and output; (None, "") if no time is left."""
        seconds = min(seconds, self.left())
        if seconds < 1:
            return None, ""
        process = subprocess.Popen(command, cwd=self.folder, env={**self.environment, **more},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        killed = []

        def kill():  # what it started too, which would hold the pipe
            killed.append(True)
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(seconds, kill)
        timer.start()
        output = process.communicate()[0].decode(errors="replace")
        timer.cancel()
        return (124 if killed else process.returncode), output

    def tests(self, program, pattern):
        _, output = self.process([f"bin/{program}", "--gtest_list_tests", f"--gtest_filter={pattern}"], 30)
        names, suite = [], ""
        for line in output.splitlines():
            name = line.split("#")[0].strip()
            if line.startswith("  "):
                names.append(suite + name)
            elif name.endswith("."):
                suite = name
        return names


def outcomes(output):
    """Yields (test, passed | failed | skipped | open, what it printed) in order."""
    name, lines = None, []
    for line in output.splitlines():
        begun = re.match(r"\[ RUN      \] (\S+)", line)
        ended = re.match(r"\[ *(OK|FAILED|SKIPPED) *\] (\S+)", line)
        if begun:
            name, lines = begun[1], []
        elif name and ended and ended[2].rstrip(",") == name:
            yield name, {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[ended[1]], "\n".join(lines)
            name = None
        else:
            lines.append(line)
    if name:
        yield name, "open", "\n".join(lines)


class Pool:
    """Runs the tests of several checks side by side."""

    def __init__(self, run):
        self.run = run
        self.work = queue.Queue()
        self.results = {}  # (check, test): (state, output)
        self.lock = threading.Lock()
        self.busy = 0

    def add(self, check, names):
        for i in range(0, len(names), check.each):
            self.work.put((check, names[i:i + check.each]))
        for name in names:
            self.results[check, name] = ("not run", "")

    def drain(self, processes):
        threads = [threading.Thread(target=self._work) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self):
        while self.run.left() > 1:
            with self.lock:
                job = None if self.work.empty() else self.work.get()
                if job is None and self.busy == 0:
                    return
                self.busy += job is not None
            if job is None:
                time.sleep(0.1)
                continue
            try:
                self._batch(*job)
            finally:
                with self.lock:
                    self.busy -= 1

    def _batch(self, check, names):
        status, output = self.run.process(
            [f"bin/{check.program}", "--gtest_filter=" + ":".join(names)], TEST_SECONDS, OMP_NUM_THREADS="1")
        if status is None:
            return
        seen = 0
        bad = False
        for name, state, text in outcomes(output):
            last = state == "open" or (state == "failed" and SPOILS.search(text))
            if state == "open" and status == 124:
                if self.run.left() < 1 or seen > 0:
                    break  # it may have begun just before the end
                state = f"over {TEST_SECONDS} s"
            elif state == "open":
                state = f"crashed ({status})"
            seen += 1
            bad = bad or state not in ("passed", "skipped")
            self.results[check, name] = ("CUDA error" if last and state == "failed" else state, text)
            if last:
                break
        if status not in (0, 124) and not bad:  # it crashed before the first test, or after the last
            seen = max(seen, 1)
            self.results[check, names[seen - 1]] = (f"exit status {status}", output[-2000:])
        if status == 124 and seen == 0:
            return
        if names[seen:]:
            self.work.put((check, names[seen:]))


class Report:
    def __init__(self, out, run):
        self.out = out
        self.failed = False
        smi = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        device = subprocess.run(smi, capture_output=True, text=True, check=False).stdout.splitlines()
        self.rows = ["# Checks on a GPU", "", f"- date: {time.strftime('%Y-%m-%d', time.gmtime())}",
                     f"- version: {(run.folder / 'version').read_text().strip()}",
                     f"- device, driver, memory: {device[0] if device else 'unknown'}", "",
                     "| check | result | last line |", "|---|---|---|"]

    def add(self, name, result, last="", failed=False):
        self.failed = self.failed or failed
        self.rows.append(f"| {name} | {result} | {last.replace('|', '/')[:120]} |")
        print(f"gpu-check: {name}: {result}", flush=True)
        (self.out / "gpu_check.md").write_text("\n".join(self.rows) + "\n")

    def log(self, name, text):
        if text.strip():
            (self.out / (name.replace(" ", "_") + ".log")).write_text(text)


def check_devices(run, report):
    status, output = run.process(["bin/devices"], 60)
    report.log("devices", output)
    passed = status == 0 and re.search("^GPU 0: ", output, re.M)
    report.add("devices", "passed" if passed else f"failed ({status})", failed=not passed)


def memcheck(run, pool, check):
    """Returns what memcheck says about the first tests that ended with an error of CUDA or a crash."""
    if shutil.which("compute-sanitizer", path=run.environment["PATH"]) is None:
        return ""
    names = [name for (of, name), (state, _) in pool.results.items()
             if of == check and (state == "CUDA error" or state.startswith("crashed"))]
    return "".join(run.process(["compute-sanitizer", "--tool", "memcheck", "--report-api-errors", "no",
                                f"bin/{check.program}", f"--gtest_filter={name}"], 60)[1] for name in names[:4])


def report_tests(run, pool, check, report):
    states = {}
    log = ""
    for (of, name), (state, text) in sorted(pool.results.items(), key=lambda item: item[0][1]):
        if of != check:
            continue
        states.setdefault(state, []).append(name)
        if state not in ("passed", "skipped"):
            log += f"##### {name}: {state}\n{text[:8000]}\n"
    report.log(check.name, log + memcheck(run, pool, check))
    bad = {state: names for state, names in states.items() if state not in ("passed", "skipped")}
    count = len(states.get("passed", []))
    result = ", ".join(f"{len(names)} {state}" for state, names in states.items())
    if not bad and count > 0:
        report.add(check.name, f"passed ({result})")
    else:
        last = next(iter(bad.values()))[0] if bad else ""
        report.add(check.name, f"failed ({result or 'no tests'})", last, failed=True)


def run_tests(run, checks, pattern, report):
    """Those that share the GPU run together."""
    for alone in (False, True):
        pool = Pool(run)
        group = [check for check in checks if isinstance(check, Tests) and check.alone == alone]
        for check in group:
            names = run.tests(check.program, check.filter)
            wanted = set(run.tests(check.program, pattern)) if pattern else set(names)
            names = [name for name in names if name in wanted]
            if names or not pattern:
                pool.add(check, names)
            else:
                report.add(check.name, f"skipped: no test is named {pattern}")
        pool.drain(1 if alone else PROCESSES)
        for check in group:
            if any(of == check for of, _ in pool.results) or not pattern:
                report_tests(run, pool, check, report)


def run_sanitizer(run, check, report):
    if shutil.which("compute-sanitizer", path=run.environment["PATH"]) is None:
        report.add(check.name, "skipped: no compute-sanitizer")
        return
    # Failed API calls of libraries that they handle are ignored: memcheck checks memory.
    options = ["--report-api-errors", "no"] if check.tool == "memcheck" else []
    command = ["compute-sanitizer", "--tool", check.tool, *options, "--error-exitcode", "9",
               f"bin/{check.program}", f"--gtest_filter={check.filter}"]
    results = [None] * check.processes

    def share(i):
        results[i] = run.process(command, check.seconds, GTEST_TOTAL_SHARDS=str(check.processes),
                                 GTEST_SHARD_INDEX=str(i))

    threads = [threading.Thread(target=share, args=(i,)) for i in range(check.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report.log(check.name, "".join(output for _, output in results))
    if any(status is None for status, _ in results):
        report.add(check.name, "not run: no time was left", failed=True)
        return
    bad = [(status, output) for status, output in results if status != 0 or check.must not in output]
    last = (bad[0][1].strip().splitlines() or [""])[-1] if bad else ""
    over = any(status == 124 for status, _ in bad)
    report.add(check.name, "passed" if not bad else "not finished in time" if over else f"failed ({bad[0][0]})",
               last, failed=bool(bad))


def run_benchmark(run, out, report):
    seconds = run.left() - 20  # for the race that is under way
    if seconds < 1:
        report.add("benchmark", "not run: no time was left", failed=True)
        return
    # PyTorch brings libraries of its own.
    theirs = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
              "CREMA_LIBRARY_PATH": run.environment["LD_LIBRARY_PATH"]}
    status, output = run.process(
        ["python3", "bench/race.py", "--runner=bin/gpu_race", "--devices=bin/devices", "--models=models",
         f"--out={out}/benchmark.md", f"--seconds={seconds:.0f}"], run.left(), **theirs)
    last = (output.strip().splitlines() or [""])[-1]
    report.log("benchmark", output)
    if status == 77:  # it says why
        report.add("benchmark", last)
    else:
        raced = re.search(r"^\| \w+ \| (train|infer) \| \w+ \| \d+ \| \d", output, re.M)
        passed = status == 0 and raced
        report.add("benchmark", "passed" if passed else f"failed ({status})", last, failed=not passed)


def flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--skip", metavar="WHY")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("GPU_CHECK_SECONDS", 520)))
    parser.add_argument("--benchmark", type=float, default=150)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--filter", default="")
    args = parser.parse_args()
    if args.out is None and not args.programs and args.skip is None:
        parser.error("OUT is required")
    for name in args.only.split(","):
        if name not in NAMES:
            parser.error(f"--only: there is no check '{name}'; there are {', '.join(NAMES)}")
    return args


def main():
    args = flags()
    if args.programs:
        print(*sorted({check.program for check in CHECKS} | {"devices", "gpu_race"}))
        return 0
    if args.skip is None and subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode != 0:
        args.skip = "there is no GPU here"
    if args.skip is not None:
        for name in NAMES:
            print(f"gpu-check: {name}: skipped ({args.skip})")
        return 0
    only = args.only.split(",")
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for log in out.glob("*.log"):
        log.unlink()
    end = time.monotonic() + args.seconds
    race = "benchmark" in only
    run = Run(pathlib.Path(__file__).resolve().parent, end - (args.benchmark if race else 0))
    report = Report(out, run)
    checks = [check for check in CHECKS if check.name in only]
    if "devices" in only:
        check_devices(run, report)
    run_tests(run, checks, args.filter, report)
    for check in checks:
        if isinstance(check, Sanitizer):
            run_sanitizer(run, check, report)
    if race:
        run.end = end
        run_benchmark(run, out, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
