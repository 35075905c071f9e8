"""Tests of scripts/gpu_check/run.sh with programs that only pretend."""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check" / "run.sh"
PASSES = 'echo "[  PASSED  ] 3 tests."'


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tools = self.folder / "tools"
        shutil.copy(RUN, self.folder / "run.sh")
        (self.folder / "version").write_text("v1\n")
        self.program("tools/nvidia-smi", "echo 'GPU 0: pretended'")
        self.program("tools/compute-sanitizer",
                     'case $2 in racecheck) echo "RACECHECK SUMMARY: 0 hazards";; '
                     '*) echo "ERROR SUMMARY: 0 errors";; esac')
        self.program("tools/python3",
                     'echo "| resnet50 | train | bf16 | 256 | 9.0 |"; echo "$@" >"$0.arguments"')
        self.program("bin/devices", 'echo "GPU 0: pretended"')
        for name in ("layers_test", "implementations_test", "gpu_test", "conformance_test", "gpu_race"):
            self.program("bin/" + name, PASSES)

    def program(self, name, script):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + script + "\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_checks(self, **environment):
        done = subprocess.run(
            [self.folder / "run.sh", self.folder / "out"], text=True, capture_output=True,
            check=False, env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}",
                              **environment})
        results = dict(re.findall(r"^gpu-check: (.*?): (.*)$", done.stdout, re.M))
        table = self.folder / "out" / "gpu_check.md"
        return done.returncode, results, table.read_text() if table.exists() else ""

    def test_all_pass(self):
        status, results, table = self.run_checks()
        self.assertEqual((status, set(results.values())), (0, {"passed"}), table)
        self.assertEqual(table.count("| passed |"), len(results))
        order = re.findall(r"^\| (.*?) \| passed", table, re.M)
        self.assertEqual((order[0], order[-1]), ("devices", "benchmark"))
        self.assertIn("--seconds=2", (self.tools / "python3.arguments").read_text())

    def test_programs_are_named(self):
        named = subprocess.run([RUN, "--programs"], text=True, capture_output=True, check=True)
        self.assertEqual(set(named.stdout.split()),
                         {path.name for path in (self.folder / "bin").iterdir()})

    def test_without_a_gpu_all_is_skipped(self):
        self.program("tools/nvidia-smi", "exit 9")
        status, results, table = self.run_checks()
        self.assertEqual((status, table), (0, ""))
        self.assertEqual(set(results.values()), {"skipped (there is no GPU here)"})

    def test_one_of_several_processes_that_fails_is_a_failure(self):
        self.program("bin/implementations_test", f'[ $GTEST_SHARD_INDEX = 5 ] || {{ {PASSES}; exit 0; }}\n'
                     'echo "[  FAILED  ] A.B"; exit 1')
        status, results, table = self.run_checks()
        self.assertEqual((status, results["random cases"]), (1, "failed (1)"))
        self.assertIn("[  FAILED  ] A.B", table)
        self.assertEqual(results["benchmark"], "passed")

    def test_what_did_nothing_has_not_passed(self):
        self.program("bin/gpu_test", 'echo "[  PASSED  ] 0 tests."')
        status, results, _ = self.run_checks()
        self.assertEqual(status, 1)
        self.assertIn("failed: its output has no", results["sessions, solvers, resume"])

    def test_all_end_in_time(self):
        self.program("bin/layers_test", "sleep 60")
        status, results, _ = self.run_checks(GPU_CHECK_SECONDS="6")
        self.assertEqual(status, 1)
        self.assertRegex(results["layers"], "not finished in [56] s")
        self.assertEqual(results["benchmark"], "not run: no time was left")

    def test_what_is_missing_is_skipped_by_name(self):
        (self.tools / "compute-sanitizer").unlink()
        self.program("tools/python3", "echo 'skipped: there is no PyTorch'; exit 77")
        status, results, _ = self.run_checks()
        self.assertEqual((status, results["racecheck"]), (0, "skipped: no compute-sanitizer"))
        self.assertEqual(results["benchmark"], "skipped: there is no PyTorch")


if __name__ == "__main__":
    unittest.main()
