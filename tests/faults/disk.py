"""Disks that are full, failing, read-only or limited: clear errors, and no part of a file."""
import errno
import os
import resource
import subprocess

from common import Fault
from cuts import resume, results

WAYS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EINTR": errno.EINTR, "short": "short"}
CALLS = {"write": "w", "read": "r", "fsync": "s", "rename": "n", "open": "o"}


def writers(world):
    """Commands that write a file or a data set, with the name of that."""
    whole = world.whole
    return {
        "convert_db to LMDB": (world.command("convert_db", whole / "set", "out"), "out"),
        "convert_db to tar": (world.command("convert_db", "--backend=tar", whole / "set", "out"), "out"),
        "convert_db to HDF5": (world.command("convert_db", "--backend=hdf5", whole / "set", "out"), "out"),
        "compute_image_mean": (world.command("compute_image_mean", whole / "set", "out"), "out"),
        "upgrade": (world.command("upgrade", whole / "s_iter_6.caffemodel", "-o", "out"), "out"),
        "deploy export": (world.command(
            "deploy", "export", f"--model={whole}/deploy.prototxt",
            f"--weights={whole}/s_iter_6.caffemodel", "-o", "out.crema"), "out.crema"),
    }


def contents(path):
    """Bytes of a file, or of all files of a data set but the locks, whose bytes vary."""
    if path.is_dir():
        return [contents(p) for p in sorted(path.iterdir()) if p.name != "lock.mdb"]
    return path.read_bytes() if path.exists() else None


def check_writer(world, fault, folder, output, expected, result, place):
    """An error leaves no output, a success the whole one."""
    outcome, got = result.outcome(), contents(folder / output)
    if outcome == "survived" and got != expected or outcome == "clear error" and got is not None:
        outcome = "lost data"
    world.table.note(fault, outcome, f"{place}: {result.detail()}")


def fail_writers(world, share):
    cases = []
    for name, (command, output) in writers(world).items():
        with world.folder() as folder:
            world.must(command, folder)
            expected = contents(folder / output)
        for call, way in ((c, w) for c in CALLS for w in WAYS if w != "short" or c in ("write", "read")):
            cases.append((name, command, output, expected, call, way))
    totals = {}
    for i in world.rounds(share):
        name, command, output, expected, call, way = world.random.choice(cases)
        with world.folder() as folder:
            fault = Fault(world, CALLS[call], WAYS[way], world.work)
            if (name, call) not in totals:
                world.run(command, folder, fault.env)
                totals[name, call] = fault.calls()
                continue
            if not totals[name, call]:
                continue
            fault.set(world.random.randint(1, totals[name, call]))
            result = world.run(command, folder, fault.env)
            if fault.made():
                check_writer(world, f"disk: {call} fails with {way} (six commands)", folder, output,
                             expected, result, f"{name}, round {i}")


def fail_training(world, share):
    with world.folder("reference") as folder:
        command = world.write_run(folder)
        world.must(command, folder)
        expected = results(folder)
    totals = {}
    for i in world.rounds(share):
        call = world.random.choice(list(CALLS))
        way = world.random.choice([w for w in WAYS if w != "short" or call in ("write", "read")])
        with world.folder() as folder:
            fault = Fault(world, CALLS[call], WAYS[way], world.work)
            world.write_run(folder)
            if call not in totals:
                world.run(command, folder, fault.env)
                totals[call] = fault.calls()
                continue
            fault.set(world.random.randint(1, max(totals[call], 1)))
            result = world.run(command, folder, fault.env)
            if not fault.made():
                continue
            outcome, detail = result.outcome(), result.detail()
            if outcome in ("survived", "clear error"):
                after, why = resume(world, folder, command, expected, True)
                outcome, detail = (outcome, detail) if after == "survived" else (after, why)
            world.table.note(f"disk: {call} fails with {way} (train, then resumed)", outcome,
                             f"round {i}: {detail}")


def limit_sizes(world, share):
    cases = list(writers(world).items())
    expected = {}
    for name, (command, output) in cases:
        with world.folder() as folder:
            world.must(command, folder)
            expected[name] = contents(folder / output)
    for i in world.rounds(share):
        name, (command, output) = cases[i % len(cases)]
        size = world.random.choice((0, 1, 511, 4096, 8192, 20000, 60000, 150000))
        with world.folder() as folder:
            result = world.run(command, folder, preexec=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (size, size)))
            check_writer(world, "disk: limit of the size of files", folder, output, expected[name],
                         result, f"{name}, {size} bytes")


def small_disk(world, share):
    """A tmpfs that is full, then read-only, then whole again; left out without the right to mount."""
    with world.folder("reference") as folder:
        command = world.write_run(folder)
        world.must(command, folder)
        expected = results(folder)
    for i in world.rounds(share):
        with world.folder() as folder:
            size = world.random.randrange(4096, 400000, 4096)
            if mount("-t", "tmpfs", "-o", f"size={size}", "none", folder):
                print("faults: no right to mount: full and read-only disks are left out")
                return
            try:
                world.write_run(folder)
                results_of = [("full", world.run(command, folder))]
                mount("-o", "remount,ro", folder)
                results_of.append(("read-only", world.run(command, folder)))
                mount("-o", "remount,rw,size=64m", folder)
                after, why = resume(world, folder, command, expected, True)
                for kind, result in results_of:
                    outcome = result.outcome() if after == "survived" else after
                    world.table.note(f"disk: {kind} (train, then resumed)", outcome,
                                     f"{size} bytes, {result.detail()}, {why}")
            finally:
                subprocess.run(["umount", "-l", folder], check=True)


def mount(*arguments):
    return os.geteuid() != 0 or subprocess.run(["mount", *map(str, arguments)],
                                               stderr=subprocess.DEVNULL).returncode


def run(world):
    fail_training(world, 0.35)
    fail_writers(world, 0.4)
    limit_sizes(world, 0.1)
    small_disk(world, 0.15)
