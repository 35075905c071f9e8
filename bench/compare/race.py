"""Contestants take turns: A B C A B C, never two at a time."""
import math
import statistics
import time

import agreement
import process

# Between two turns, for threads of the last one that still spin.
PAUSE_SECONDS = 0.05
# A start that takes longer, as those of compilers, is measured once.
LONG_START_SECONDS = 5


def quartiles(values):
    """First quartile, median, third."""
    if len(values) == 1:
        return (values[0],) * 3
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


class Runner:
    """A contestant on a course, and what was measured of it."""

    def __init__(self, contestant):
        self.contestant = contestant
        self.name = contestant.name
        self.running = None
        self.why_out = ""  # of the race, and why
        self.error = None
        self.cold_starts = []
        self.count = 1  # runs a turn
        self.turns = []  # seconds of the runs of each
        self.facts = {}

    def attempt(self, step):
        """Does a step unless it is out; a failure, whichever it is, puts it out."""
        if self.why_out:
            return
        try:
            step(self)
        except (process.Failed, agreement.Disagreement) as error:
            self._leave(str(error))
        except Exception as error:  # pylint: disable=broad-except
            self._leave(f"{type(error).__name__}: {error}")

    def _leave(self, why):
        self.why_out = why
        self.stop()

    def stop(self):
        if self.running is not None:
            self.running.quit()
            self.running = None


def _check(course, reference):
    def step(runner):
        runner.contestant.prepare()
        runner.running = runner.contestant.start(checked=True)
        runner.error = agreement.check(course, reference, runner.running)
        if course.mode == "train":  # of another rate, and without dropout
            runner.stop()
        else:
            runner.cold_starts.append(runner.running.cold_start)
    return step


def _start(runner):
    if runner.running is not None and runner.cold_starts[-1] > LONG_START_SECONDS:
        return
    runner.stop()
    runner.running = runner.contestant.start()
    runner.cold_starts.append(runner.running.cold_start)


def _warm_up(seconds):
    def step(runner):
        runner.running.ask("run 1")
        once = min(_times(runner, 2))
        runner.count = max(1, math.ceil(seconds / once))
        runner.running.ask(f"run {min(runner.count, 1000)}")
    return step


def _times(runner, count):
    """Seconds of that many runs. Throws process.Failed if they cannot be."""
    seconds = runner.running.ask(f"run {count}")["seconds"]
    if len(seconds) != count or not all(0 < x < math.inf for x in seconds):
        raise process.Failed(f"{count} runs took {str(seconds)[:100]} seconds, it says")
    return seconds


def _turn(runner):
    time.sleep(PAUSE_SECONDS)
    runner.turns.append(_times(runner, runner.count))


def _finish(runner):
    runner.facts = {**runner.running.ready, "peak_kb": runner.running.ask("memory")["peak_kb"]}
    runner.stop()


def hold(course, reference, contestants, turns, turn_seconds, cold_starts):
    """Checks, then times. The runners, the first contestant's first; some may be out."""
    runners = [Runner(contestant) for contestant in contestants]
    starts = cold_starts - (course.mode == "infer")
    everyone = [_check(course, reference), *[_start] * starts, _warm_up(turn_seconds),
                *[_turn] * turns, _finish]
    try:
        for step in everyone:
            for runner in runners:
                runner.attempt(step)
    finally:
        for runner in runners:
            runner.stop()
    return runners
