"""Runs that end at any point of their writing: the next one must resume, to the same bytes."""
import random
import signal
import subprocess
import time

from common import Fault, start

RUNS = {
    "binary": "",
    "HDF5": "snapshot_format: HDF5",
    "EMA and best": 'type: "Adam" momentum: 0.9 momentum2: 0.999 ema_decay: 0.9 '
                    "snapshot_best { } test_iter: 1 test_interval: 2",
}


def results(folder):
    """Bytes of what a run leaves under final names; a state names times, so weights only."""
    return {p.name: p.read_bytes() for p in folder.glob("s_*") if ".caffemodel" in p.name}


def resume(world, folder, command, expected, final=False):
    """Runs on after a fault. Returns outcome and detail. With `final`, only the last weights must be
    there: a snapshot that could not be written was reported, and the run went on."""
    result = world.run(command + ["--resume=auto"], folder)
    if result.code != 0:
        return "lost data" if result.code else result.outcome(), result.detail()
    got = results(folder)
    last = max(expected)
    different = [name for name, data in expected.items()
                 if got.get(name, data if final and name != last else None) != data]
    return ("lost data" if different else "survived"), f"other bytes: {different}"


def cut_at_calls(world, name, how, share):
    with world.folder("reference") as folder:
        command = world.write_run(folder, RUNS[name])
        fault = Fault(world, "wsno", how, folder)
        world.must(command, folder)
        expected = results(folder)
    with world.folder() as folder:
        fault.env["FAULT_UNDER"] = str(folder)
        world.write_run(folder, RUNS[name])
        world.run(command, folder, fault.env)
    points = list(range(1, fault.calls() + 1))
    random.Random(1).shuffle(points)
    for i in world.rounds(share):
        if i >= len(points):
            break
        with world.folder() as folder:
            world.write_run(folder, RUNS[name])
            fault.set(points[i])
            code = world.run(command, folder, fault.env).code
            if code != 99:
                continue  # the order of calls differed a little, and this one was not reached
            outcome, detail = resume(world, folder, command, expected)
            kind = "power cut, unsynced contents lost" if how == "power" else "process ends"
            world.table.note(f"cuts: {kind} at the n-th call, {name}", outcome,
                             f"call {points[i]} of {len(points)}: {detail}")


def kill_at_random(world, share):
    with world.folder("reference") as folder:
        command = world.write_run(folder, iterations=200)
        world.must(command, folder)
        expected = results(folder)
    with world.folder() as folder:
        world.write_run(folder, iterations=200)
        for i in world.rounds(share):
            process = start(command + ["--resume=auto"], cwd=folder, stderr=subprocess.DEVNULL)
            time.sleep(world.random.uniform(0.02, 0.6))
            process.send_signal(signal.SIGKILL)
            if process.wait() == 0 or i % 10 == 9:
                outcome, detail = resume(world, folder, command, expected)
                world.table.note("cuts: 1 to 10 SIGKILLs at random times", outcome, detail)
                for path in folder.glob("s_*iter*"):
                    path.unlink()


def run(world):
    for name in RUNS:
        cut_at_calls(world, name, "exit", 0.15)
        cut_at_calls(world, name, "power", 0.15)
    kill_at_random(world, 0.1)
