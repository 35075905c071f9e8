"""A process that answers lines with lines of JSON: Crema's runner, or a peer's worker."""
import json
import os
import select
import subprocess
import time


# Longest time for an answer or for preparations; compilers take minutes.
TIMEOUT_SECONDS = 1800


class Failed(Exception):
    """The process said what is wrong, said nothing that can be read, or ended."""


class Process:
    """Started, loaded, and run once: cold_start is the time to that first result, in seconds.

    `timeout` is in seconds, for each answer.
    """

    def __init__(self, command, threads, log, timeout=TIMEOUT_SECONDS):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                           OPENBLAS_NUM_THREADS=str(threads))
        self.log = log
        self.timeout = timeout
        self.unread = b""
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
        line = self._line()
        values = _values(line)
        if values is not None and "error" not in values:
            return values
        status = self._end()
        if values is None and line.strip():
            raise Failed(f"answered {line[:100]!r}, which is no object of JSON; see {self.log}")
        reason = values["error"] if values else None
        raise Failed(str(reason or f"ended with status {status}; see {self.log}"))

    def _line(self):
        """The next one; what there is of it where the process has ended. Throws Failed."""
        deadline = time.monotonic() + self.timeout
        output = self.process.stdout.fileno()
        while b"\n" not in self.unread:
            left = max(0, deadline - time.monotonic())
            if not select.select([output], [], [], left)[0]:
                self.process.kill()
                self._end()
                raise Failed(f"no answer in {self.timeout:g} s; see {self.log}")
            more = os.read(output, 1 << 16)
            if not more:
                break
            self.unread += more
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode("utf-8", "replace")


def _values(line):
    """None if it holds no object of JSON."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def run_once(command, threads, log, timeout=TIMEOUT_SECONDS):
    """Runs a command that answers nothing unless it fails; throws Failed."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    with open(log, "ab") as errors:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=errors, text=True, errors="replace", env=environment,
                                  check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done in {timeout:g} s; see {log}") from None
    if done.returncode == 0:
        return
    answers = [_values(line) for line in done.stdout.splitlines() if line.startswith("{")]
    reason = (answers[-1] or {}).get("error") if answers else None
    raise Failed(reason or f"ended with status {done.returncode}; see {log}")
