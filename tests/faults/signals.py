"""SIGTERM at any time: commands must act on it soon, and a training leaves a snapshot to resume."""
import subprocess
import time

from common import start, stop
from cuts import resume, results

LIMIT = 2.0  # seconds; a second is promised, and the machine may be busy


def start_and_stop(world, command, folder, delay):
    """Returns outcome and detail of one SIGTERM after `delay` seconds."""
    with open(folder / "err", "w+") as err:
        process = start(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=err)
        time.sleep(delay)
        seconds = stop(process, 20)
    text = (folder / "err").read_text(errors="replace")[-300:]
    if seconds is None or seconds > LIMIT:
        return "hung", f"after {delay:.3f} s: took {seconds} s: {text}"
    # Before its handlers are there, and in commands without an end of their own, it ends them.
    good = process.returncode in (0, -15, 143)
    return "survived" if good else "died", f"after {delay:.3f} s: {process.returncode}: {text}"


def stop_training(world, share):
    with world.folder("reference") as folder:
        command = world.write_run(folder, iterations=300)
        world.must(command, folder)
        expected = results(folder)
    for i in world.rounds(share):
        with world.folder() as folder:
            world.write_run(folder, iterations=300)
            outcome, detail = start_and_stop(world, command, folder, world.random.uniform(0, 1.2))
            if outcome == "survived":
                outcome, detail = resume(world, folder, command, expected)
            world.table.note("signals: SIGTERM to train (opening, planning, snapshots)", outcome,
                             detail)


def stop_others(world, share):
    whole = world.whole
    commands = {
        "profile": world.command("profile", f"--model={whole}/net.prototxt", "--iterations=1000000"),
        "deploy bench": world.command("deploy", "bench", f"--model={whole}/m.crema", "--seconds=60"),
        "check": world.command("check", f"--solver={whole}/solver.prototxt"),
        "serve": world.command("serve", f"--model={whole}/m.crema", "--port=0", "--grpc_port=-1"),
    }
    for i in world.rounds(share):
        name, command = list(commands.items())[i % len(commands)]
        with world.folder() as folder:
            outcome, detail = start_and_stop(world, command, folder, world.random.uniform(0, 1))
            world.table.note(f"signals: SIGTERM to {name}", outcome, detail)


def run(world):
    stop_training(world, 0.6)
    stop_others(world, 0.4)
