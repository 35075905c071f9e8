"""Crema's side of a race: gpu_race, a process that answers lines."""
import json
import os
import subprocess
import tempfile
import threading


def environment():
    """Returns the environment of Crema's programs, whose libraries may differ from PyTorch's."""
    path = os.environ.get("CREMA_LIBRARY_PATH")
    return dict(os.environ, LD_LIBRARY_PATH=path) if path else None


class Crema:
    """`limit`: seconds that one answer may take. `autotune`: seconds for choosing engines."""

    def __init__(self, runner, net, race, model, gpu, limit, autotune):
        shapes = ";".join(f"{blob}:" + ",".join(map(str, shape))
                          for blob, shape in net.shapes(race.batch, race.mode).items())
        bounds = ";".join(f"{blob}:{bound}" for blob, bound in net.integers.items())
        command = [runner, f"--model={model}", f"--shape={shapes}", f"--bounds={bounds}",
                   f"--mode={race.mode}", f"--precision={race.precision.upper()}",
                   f"--autotune={autotune}"]
        if gpu is not None:
            command.append(f"--gpu={gpu}")
        self.limit = limit
        self.errors = tempfile.TemporaryFile("w+")  # a pipe that nobody reads would stop it
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, env=environment())
        try:
            made = self._answer()
        except Exception:
            self.close()
            raise
        self.learned = made["learned"]
        self.macs = made["macs"]
        self.implementations = made["implementations"]

    def passes(self, count, wait):
        return self._ask(f"passes {count} {int(wait)}")["seconds"]

    def state(self):
        """Returns the MiB that it uses on the GPU, and the reason why it has no CUDA graphs."""
        return self._ask("state")

    def _ask(self, question):
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # its last words say why
            pass
        return self._answer()

    def _answer(self):
        timer = threading.Timer(self.limit, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        self.process.wait()
        self.errors.seek(0)
        errors = self.errors.read().strip().splitlines()
        raise RuntimeError(errors[-1] if errors else f"no answer in {self.limit:.0f} s")

    def close(self):
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdout, self.errors):
            file.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
