"""A process that answers lines with lines of JSON: Crema's runner, or a peer's worker."""
import json
import os
import subprocess
import time


class Failed(Exception):
    """The process said what is wrong, or ended."""


class Process:
    """Started, loaded, and run once: cold_start is the time to that first result, in seconds."""

    def __init__(self, command, threads, log):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                           OPENBLAS_NUM_THREADS=str(threads))
        self.log = log
        start = time.perf_counter()
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, text=True, env=environment)
        self.ready = self._read()
        self.cold_start = time.perf_counter() - start

    def ask(self, line):
        """The answer to a command. Throws Failed."""
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said last is still to be read
        return self._read()

    def quit(self):
        """Ends it; never throws."""
        try:
            self.process.stdin.write("quit\n")
        except (OSError, ValueError):
            pass  # it has ended
        self._end()

    def _end(self):
        """Waits for its end, not for ever; its status."""
        try:
            self.process.stdin.close()
        except OSError:
            pass  # what was written last cannot be delivered
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.process.stdout.close()

    def _read(self):
        line = self.process.stdout.readline()
        values = json.loads(line) if line.strip() else {}
        if line.strip() and "error" not in values:
            return values
        status = self._end()
        raise Failed(values.get("error") or f"ended with status {status}; see {self.log}")


def run_once(command, threads, log):
    """Runs a command that answers nothing unless it fails; throws Failed."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    with open(log, "ab") as errors:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=errors, text=True, env=environment, check=False)
    if done.returncode == 0:
        return
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    reason = json.loads(lines[-1]).get("error") if lines else None
    raise Failed(reason or f"ended with status {done.returncode}; see {log}")
