"""Allocations that fail, one at a time, and address space that runs out."""
import resource
import time

from common import Fault
from server import Server, infer


def commands(world):
    whole = world.whole
    return {
        "train": world.write_run(whole),
        "deploy classify": world.command("deploy", "classify", f"--model={whole}/m.crema",
                                         world.picture),
    }


def fail_allocations(world, name, command, share):
    fault = Fault(world, "m", 12, "/")
    world.run(command, world.whole, fault.env)
    total = fault.calls()
    for i in world.rounds(share):
        at = world.random.randint(1, total)
        fault.set(at)
        result = world.run(command, world.whole, fault.env)
        if fault.made():
            world.note_result(f"memory: n-th allocation fails, {name}", result, f"{at} of {total}")


def limit_address_space(world, name, command, share):
    for i in world.rounds(share):
        size = world.random.randrange(60, 1500, 10) << 20
        result = world.run(command, world.whole, preexec=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (size, size)))
        # The loader itself cannot map the libraries below some size.
        loader = result.code == 127 and "shared libraries" in result.err
        world.table.note(f"memory: limit of address space, {name}",
                         "clear error" if loader else result.outcome(),
                         f"{size >> 20} MiB: {result.detail()}")


def fail_in_server(world, share):
    """Each allocation of a request, alone and with the 19 after it, in random order."""
    fault = Fault(world, "m", 12, "/")
    server, name = Server(world, env=fault.env), "memory: n-th allocation fails, a request to serve"
    expected = infer(server)
    before = fault.calls()
    infer(server)
    points = [(at, more) for at in range(1, fault.calls() - before + 1) for more in (0, 19)]
    world.random.shuffle(points)
    for i in world.rounds(share):
        at, more = points[i % len(points)]
        fault.set(fault.calls() + at, restart=False, more=more)
        begin = time.monotonic()
        answer = infer(server, timeout=5)
        late = time.monotonic() - begin >= 5  # neither an answer nor the end of the connection
        fault.set(0, restart=False)
        place = f"allocation {at} and {more} more"
        if not server.alive():
            world.table.note(name, "died", f"{place}: {server.end()}")
            server = Server(world, env=fault.env)
        elif infer(server, timeout=10) != expected or late:
            world.table.note(name, "hung", f"{place}: no good answer after it")
            server.process.kill()
            server.process.wait()
            server = Server(world, env=fault.env)
        else:
            world.table.note(name, "survived" if answer == expected else "clear error")
    world.table.note("memory: end of serve after these", server.stop())


def run(world):
    for name, command in commands(world).items():
        fail_allocations(world, name, command, 0.3)
        limit_address_space(world, name, command, 0.1)
    fail_in_server(world, 0.2)
