"""Tests of scripts/gpu_check/run.py with programs that only pretend."""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check" / "run.py"
# A test program: `behaviour` says what its tests do instead of passing.
PROGRAM = """#!{python}
import os, sys, time
behaviour = {behaviour!r}
names = {names!r}
flags = dict(flag.lstrip("-").split("=", 1) for flag in sys.argv[1:] if "=" in flag)
if "--gtest_list_tests" in sys.argv:
    print("Suite.")
    for name in names:
        if "*" in flags["gtest_filter"] or flags["gtest_filter"] == "Suite." + name:
            print("  " + name)
    sys.exit()
with open({log!r}, "a") as log:
    log.write(flags["gtest_filter"] + chr(10))
spoilt = False
for name in flags["gtest_filter"].split(":"):
    does = behaviour.get(name[6:])
    print("[ RUN      ] " + name, flush=True)
    if does == "crash":
        os.abort()
    if does == "hang":
        time.sleep(60)
    spoilt = spoilt or does == "spoil"
    if spoilt:
        print("failed: cudaErrorIllegalAddress")
    if spoilt or does == "fail":
        print("[  FAILED  ] " + name + " (1 ms)")
    else:
        print("[       OK ] " + name + " (1 ms)", flush=True)
    if does == "fail at exit":
        sys.exit(3)
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tools = self.folder / "tools"
        shutil.copy(RUN, self.folder / "run.py")
        (self.folder / "version").write_text("v1\n")
        self.script("tools/nvidia-smi", "echo 'GPU 0: pretended'")
        self.script("tools/compute-sanitizer",
                    'case $2 in racecheck) echo "RACECHECK SUMMARY: 0 hazards";; '
                    '*) echo "ERROR SUMMARY: 0 errors";; esac')
        self.script("tools/python3", 'echo "| resnet50 | train | bf16 | 256 | 9.0 |"; echo "$@" >"$0.arguments"')
        self.script("bin/devices", 'echo "GPU 0: pretended"')
        self.script("bin/gpu_race", "exit 1")
        for name in ("layers_test", "implementations_test", "gpu_test", "conformance_test"):
            self.fake(name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def script(self, name, text):
        self.write(name, "#!/bin/sh\n" + text + "\n")

    def fake(self, program, names=("A", "B", "C", "D"), **behaviour):
        self.write("bin/" + program, PROGRAM.format(python=sys.executable, behaviour=behaviour, names=names,
                                                    log=str(self.folder / (program + ".log"))))

    def run_checks(self, *arguments):
        done = subprocess.run(
            [sys.executable, self.folder / "run.py", self.folder / "out", *arguments], text=True,
            capture_output=True, check=False,
            env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"})
        self.assertEqual(done.stderr, "")
        results = dict(re.findall(r"^gpu-check: (.*?): (.*)$", done.stdout, re.M))
        table = self.folder / "out" / "gpu_check.md"
        return done.returncode, results, table.read_text() if table.exists() else ""

    def log_of(self, name):
        return (self.folder / "out" / (name + ".log")).read_text()

    def test_all_pass(self):
        status, results, table = self.run_checks()
        self.assertEqual(status, 0, table)
        self.assertEqual(results["layers"], "passed (4 passed)")
        self.assertEqual({result.split(" (")[0] for result in results.values()}, {"passed"})
        order = re.findall(r"^\| (.*?) \| passed", table, re.M)
        self.assertEqual((order[0], order[-1], len(order)), ("devices", "benchmark", len(results)))
        self.assertRegex((self.tools / "python3.arguments").read_text(), r"--seconds=\d{3}")

    def test_programs_are_named(self):
        named = subprocess.run([RUN, "--programs"], text=True, capture_output=True, check=True)
        self.assertEqual(set(named.stdout.split()), {path.name for path in (self.folder / "bin").iterdir()})

    def test_without_a_gpu_all_is_skipped(self):
        self.script("tools/nvidia-smi", "exit 9")
        status, results, table = self.run_checks()
        self.assertEqual((status, table), (0, ""))
        self.assertEqual(set(results.values()), {"skipped (there is no GPU here)"})

    def test_a_failed_test_leaves_the_others_their_process(self):
        self.fake("layers_test", B="fail")
        status, results, table = self.run_checks("--only=layers")
        self.assertEqual((status, results["layers"]), (1, "failed (3 passed, 1 failed)"))
        self.assertIn("Suite.B", table)
        self.assertIn("##### Suite.B: failed", self.log_of("layers"))
        self.assertEqual((self.folder / "layers_test.log").read_text().count("\n"), 1)

    def test_what_spoils_the_context_does_not_spoil_other_tests(self):
        self.fake("layers_test", A="spoil", C="crash")
        status, results, _ = self.run_checks("--only=layers")
        self.assertEqual(status, 1)
        self.assertEqual(results["layers"], "failed (1 CUDA error, 2 passed, 1 crashed (-6))")
        self.assertEqual((self.folder / "layers_test.log").read_text().splitlines(),
                         ["Suite.A:Suite.B:Suite.C:Suite.D", "Suite.B:Suite.C:Suite.D", "Suite.D"])
        self.assertIn("ERROR SUMMARY", self.log_of("layers"))  # memcheck of both

    def test_what_did_nothing_has_not_passed(self):
        self.fake("gpu_test", names=())
        status, results, _ = self.run_checks("--only=sessions")
        self.assertEqual((status, results["sessions"]), (1, "failed (no tests)"))

    def test_all_end_in_time(self):
        self.fake("layers_test", B="hang")
        status, results, _ = self.run_checks("--only=layers,racecheck", "--seconds=5")
        self.assertEqual(status, 1)
        self.assertEqual(results["layers"], "failed (1 passed, 3 not run)")
        self.assertEqual(results["racecheck"], "not run: no time was left")

    def test_a_bad_end_after_the_last_test_is_a_failure(self):
        self.fake("layers_test", D="fail at exit")
        status, results, _ = self.run_checks("--only=layers")
        self.assertEqual((status, results["layers"]), (1, "failed (3 passed, 1 exit status 3)"))

    def test_children_of_a_command_end_with_it(self):
        self.script("tools/compute-sanitizer", f"(sleep 6; touch {self.folder}/ended) & wait")
        status, results, _ = self.run_checks("--only=racecheck", "--seconds=3")
        self.assertEqual((status, results["racecheck"]), (1, "not finished in time"))
        self.assertFalse((self.folder / "ended").exists())

    def test_unknown_checks_are_refused(self):
        done = subprocess.run([sys.executable, RUN, self.folder, "--only=layer"], text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no check 'layer'", done.stderr)

    def test_tests_can_be_named(self):
        status, results, _ = self.run_checks("--only=layers", "--filter=Suite.B")
        self.assertEqual((status, results), (0, {"layers": "passed (1 passed)"}))
        self.assertEqual((self.folder / "layers_test.log").read_text(), "Suite.B\n")

    def test_a_sanitizer_that_finds_something_fails(self):
        self.script("tools/compute-sanitizer", 'echo "ERROR SUMMARY: 1 error"; exit 9')
        status, results, _ = self.run_checks("--only=memcheck of layers")
        self.assertEqual((status, results["memcheck of layers"]), (1, "failed (9)"))

    def test_what_is_missing_is_skipped_by_name(self):
        (self.tools / "compute-sanitizer").unlink()
        self.script("tools/python3", "echo 'skipped: there is no PyTorch'; exit 77")
        status, results, _ = self.run_checks("--only=racecheck,benchmark")
        self.assertEqual((status, results["racecheck"]), (0, "skipped: no compute-sanitizer"))
        self.assertEqual(results["benchmark"], "skipped: there is no PyTorch")


if __name__ == "__main__":
    unittest.main()
