"""Hosts of their own on one machine: network namespaces, joined by a bridge.
Needs root, ip and nsenter."""
import os
import pathlib
import signal
import subprocess
import time

ADDRESS = "10.77.0.%d"


def _ip(*arguments, of=None):
    subprocess.run((of or []) + ["ip", *map(str, arguments)], check=True, capture_output=True,
                   text=True)


class Hosts:
    """Host i has the name host<i> and the address ADDRESS % (i + 1) on its interface eth0.

    `rate`: bits a second of each link, in each direction; None: as fast as the machine.
    `wired=False` leaves out the links: the caller makes interfaces eth0.
    """

    def __init__(self, count, folder, rate=None, wired=True):
        self.processes = []
        self.folder = pathlib.Path(folder)
        try:
            self.switch = self._new("switch")
            if wired:
                _ip("link", "add", "switch", "type", "bridge", of=self.switch)
                _ip("link", "set", "switch", "up", of=self.switch)
            self.hosts = [self._new(f"host{i}") for i in range(count)]
            for i in range(count if wired else 0):
                self._wire(i, rate)
            self._write_agent()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def command(self, host, command):
        """The command, to be run on that host."""
        return [*self.hosts[host], *map(str, command)]

    def address(self, host):
        return ADDRESS % (host + 1)

    def set_link(self, host, up):
        """Of the switch alone: the host sees a network that is silent, as behind a dead switch."""
        _ip("link", "set", f"to{host}", "up" if up else "down", of=self.switch)

    def mpirun(self, kind, ranks, program, more=()):
        """The command that starts `program` on ranks hosts, one each; it runs on host 0."""
        names = [self.address(i) for i in range(ranks)]
        if kind == "openmpi":
            launcher = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-n", ranks,
                        "--host", ",".join(names), "--mca", "plm_rsh_agent", self.agent,
                        "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl", "tcp,self",
                        "--mca", "btl_tcp_if_include", "eth0", "--mca", "pml", "ob1"]
        else:
            launcher = ["mpirun.mpich", "-n", ranks, "-hosts", ",".join(names), "-launcher", "ssh",
                        "-launcher-exec", self.agent, "-iface", "eth0",
                        "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"]
        return self.command(0, [*launcher, *more, *program])

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def _new(self, name):
        # With the usual 15, the launcher of Open MPI waits a quarter of an hour for a host cut off.
        script = ('hostname "$0" && echo 3 > /proc/sys/net/ipv4/tcp_retries2 && '
                  'ip link set lo up && echo ready && exec cat')  # until this script ends
        process = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", script, name],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   stdin=subprocess.PIPE, text=True)
        self.processes.append(process)
        if process.stdout.readline() != "ready\n":
            raise OSError("this user, container or kernel makes no network namespaces")
        return ["nsenter", "-t", str(process.pid), "--net", "--uts", "--"]

    def _wire(self, i, rate):
        pid = self.processes[1 + i].pid
        _ip("link", "add", f"to{i}", "type", "veth", "peer", "name", "eth0", "netns", pid,
            of=self.switch)
        _ip("link", "set", f"to{i}", "master", "switch", "up", of=self.switch)
        _ip("addr", "add", self.address(i) + "/24", "dev", "eth0", of=self.hosts[i])
        _ip("link", "set", "eth0", "up", of=self.hosts[i])
        if rate:
            for side, device in ((self.switch, f"to{i}"), (self.hosts[i], "eth0")):
                subprocess.run([*side, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
                                f"{rate:.0f}bit", "burst", "256kb", "limit", "4mb"], check=True)

    def _write_agent(self):
        """Stands in for ssh: AGENT [-flags] ADDRESS COMMAND..."""
        self.agent = self.folder / "agent"
        cases = "\n".join(f"{self.address(i)}) exec {' '.join(host)} sh -c \"$*\" ;;"
                          for i, host in enumerate(self.hosts))
        self.agent.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
                              f'host=$1\nshift\ncase $host in\n{cases}\nesac\nexit 1\n')
        self.agent.chmod(0o755)


def why_not():
    """The reason why there can be no hosts here; None: there can."""
    for tool in ("ip", "nsenter", "unshare"):
        if not any(os.access(os.path.join(p, tool), os.X_OK)
                   for p in os.environ.get("PATH", "").split(os.pathsep)):
            return f"there is no {tool}"
    try:
        Hosts(1, "/tmp").close()
    except (OSError, subprocess.CalledProcessError) as error:
        return str(getattr(error, "stderr", None) or error).strip()
    return None
