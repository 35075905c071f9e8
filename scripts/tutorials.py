#!/usr/bin/env python3
"""Executes the commands of tutorials (`$ ...` in code blocks) and compares their output with the page.

usage: scripts/tutorials.py BUILD [--section=TITLE] [PAGE...]      (pages: docs/tutorials/*.md)

`...` stands for lines, or the rest of one, that are not compared. Numbers with a point may differ a
little, everything else not. Times in front of log lines are left out. A command that ends in `&` runs
until the end of its section. It all takes place in BUILD/tutorials/PAGE, which is removed before.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

NUMBER = re.compile(r"(\d+\.\d+(?:e[-+]?\d+)?)")
START_SECONDS = 60  # for a command in the background to write its lines


def commands_of(text):
    """(section, line number, command, expected lines) in their order."""
    section, fenced, found, inside = "", False, [], False
    for number, line in enumerate(text.split("\n"), 1):
        fence = line.startswith("```")
        code = (fenced and not fence) or (not fenced and line.startswith("    "))
        fenced ^= fence
        if not code:
            inside = inside and not line.strip() and not fence  # blank lines within a block
            heading = re.match(r"##? (.*)", line)
            section = heading.group(1) if heading and not fenced else section
            continue
        line = line if fenced else line[4:]
        if line.startswith("$ "):
            found.append((section, number, line[2:], []))
            inside = True
        elif inside:
            found[-1][3].append(line)
    return found


def same(expected, actual):
    """Whether a line is the expected one, up to small differences of numbers with a point."""
    if expected.endswith("..."):
        actual = actual[: len(expected) - 3]
        expected = expected[:-3]
    wanted, got = NUMBER.split(expected), NUMBER.split(actual)
    if len(wanted) != len(got) or wanted[::2] != got[::2]:
        return False
    pairs = zip(map(float, wanted[1::2]), map(float, got[1::2]))
    return all(abs(a - b) <= 0.05 + 0.05 * abs(a) for a, b in pairs)


def matches(expected, actual):
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(matches(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    return bool(actual) and same(expected[0], actual[0]) and matches(expected[1:], actual[1:])


def plain(line):
    """What a terminal shows of a line, without the time and place in front of a log line."""
    line = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line.rstrip().split("\r")[-1])
    return re.sub(r"^[IWE]\d{4} \S+ +\d+ [^\]]*\] ", "", line)


class Command:
    """A command in a terminal, since commands write less to those. `lines`: what it has written."""

    def __init__(self, text, **where):
        self.lines = []
        self.terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 500, 0, 0))
        self.process = subprocess.Popen(["bash", "-c", text], stdin=subprocess.DEVNULL, stdout=inside,
                                        stderr=inside, start_new_session=True, **where)
        os.close(inside)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        rest = b""
        with contextlib.suppress(OSError):  # its end, for a terminal
            while True:
                *whole, rest = (rest + os.read(self.terminal, 65536)).split(b"\n")
                self.lines += [plain(line.decode(errors="replace")) for line in whole]
        if rest:
            self.lines.append(plain(rest.decode(errors="replace")))
        os.close(self.terminal)

    def finish(self):
        self.process.wait()
        self.reader.join()

    def stop(self):
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self.process.pid, signal.SIGTERM)  # the shell and what it has started
        self.process.wait()


def run_page(page, build, only):
    folder = build / "tutorials" / page.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    where = {"cwd": folder, "env": {**os.environ, "PATH": f"{build / 'bin'}:{os.environ['PATH']}"}}
    running, before, count = [], None, 0
    try:
        for section, number, command, expected in commands_of(page.read_text()):
            if only and section != only:
                continue
            if section != before:
                stop(running)
            before, count = section, count + 1
            expected = [plain(line) for line in expected]
            print(f"{page}:{number}: $ {command}", flush=True)
            run = Command(command.removesuffix("&"), **where)
            if command.endswith("&"):
                running.append(run)
                end = time.monotonic() + START_SECONDS
                while not matches(expected, run.lines) and time.monotonic() < end and run.process.poll() is None:
                    time.sleep(0.1)
            else:
                run.finish()
            actual = list(run.lines)
            if not matches(expected, actual):
                both = ["expected:", *expected, "but it wrote:", *actual]
                sys.exit(f"{page}:{number}: {command}\n" + "\n".join("  " + line for line in both))
    finally:
        stop(running)
    if count == 0:
        sys.exit(f"{page}: no commands" + (f" in section '{only}'" if only else ""))
    return count


def stop(running):
    while running:
        running.pop().stop()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("page", nargs="*", type=pathlib.Path)
    arguments.add_argument("--section")
    given = arguments.parse_args()
    pages = given.page or sorted((pathlib.Path(__file__).parents[1] / "docs/tutorials").glob("*.md"))
    count = sum(run_page(page, given.build.absolute(), given.section) for page in pages)
    print(f"{count} commands wrote what the pages say")


if __name__ == "__main__":
    main()
