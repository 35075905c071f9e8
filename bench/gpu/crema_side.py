"""Crema's side of a race: gpu_race, a process that answers lines."""
import json
import os
import subprocess
import threading


def environment():
    """Of Crema's programs, whose libraries may lie elsewhere than PyTorch's."""
    path = os.environ.get("CREMA_LIBRARY_PATH")
    return dict(os.environ, LD_LIBRARY_PATH=path) if path else None


class Crema:
    """`limit`: seconds that one answer may take."""

    def __init__(self, runner, net, race, model, gpu, limit):
        shapes = ";".join(f"{blob}:" + ",".join(map(str, shape))
                          for blob, shape in net.shapes(race.batch, race.mode).items())
        bounds = ";".join(f"{blob}:{bound}" for blob, bound in net.integers.items())
        command = [runner, f"--model={model}", f"--shape={shapes}", f"--bounds={bounds}",
                   f"--mode={race.mode}", f"--precision={race.precision.upper()}"]
        if gpu is not None:
            command.append(f"--gpu={gpu}")
        self.limit = limit
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env=environment())
        try:
            made = self._answer()
        except Exception:
            self.close()
            raise
        self.learned = made["learned"]
        self.macs = made["macs"]
        self.arena_mib = made["arena_mib"]

    def passes(self, count, wait):
        self.process.stdin.write(f"passes {count} {int(wait)}\n")
        self.process.stdin.flush()
        return self._answer()["seconds"]

    def _answer(self):
        timer = threading.Timer(self.limit, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        errors = self.process.communicate()[1].strip().splitlines()
        raise RuntimeError(errors[-1] if errors else f"no answer in {self.limit:.0f} s")

    def close(self):
        self.process.kill()
        self.process.communicate()
