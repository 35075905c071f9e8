"""Speaks the protocol of a contestant and computes nothing.

Usage: pretender.py JSON: name, diary (a file that gets a line when a run begins and ends), outputs
(floats), losses, seconds (what each run says it took), difference, dies_at (a command that ends
it), hangs_at (one that gets no answer), says ({command: a text instead of the answer}, the
last one where that has no newline at its end). With compare_runner's mode=weights after the JSON it
writes a file and ends.
"""
import array
import json
import signal
import sys


def main():
    values = json.loads(sys.argv[1])
    losses = iter(values.get("losses", [1.0] * 1000))
    run_seconds = values.get("seconds", 0.001)

    def answer(**answers):
        print(json.dumps(answers), flush=True)

    def note(text):
        with open(values["diary"], "a", encoding="utf-8") as diary:
            diary.write(f"{values['name']} {text}\n")

    if "mode=weights" in sys.argv:
        path = next(a.partition("=")[2] for a in sys.argv if a.startswith("weights="))
        with open(path, "w", encoding="utf-8"):
            return
    note("starts")
    if values.get("dies_at") == "start":
        answer(error="cannot read this net")
        return
    answer(ready=True, loss=next(losses))
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == values.get("dies_at"):
            sys.exit(3)
        if command in values.get("says", {}):
            text = values["says"][command]
            print(text, end="", flush=True)
            if not text.endswith("\n"):
                return
            continue
        if command == values.get("hangs_at"):
            print('{"half', end="", flush=True)
            signal.pause()
        if command == "quit":
            note("ends")
            return
        if command == "run":
            note("begins")
            note("stops")  # before the answer: others may begin as soon as that is there
            answer(seconds=[run_seconds] * int(argument), loss=next(losses))
        elif command == "outputs":
            with open(f"{argument}/output0.f32", "wb") as file:
                array.array("f", values["outputs"]).tofile(file)
            answer(outputs=[{"file": "output0.f32"}])
        elif command == "inputs":
            answer(inputs=[])
        elif command == "weights":
            answer()
        elif command == "updates":
            answer(difference=values.get("difference", 0))
        elif command == "memory":
            answer(peak_kb=2048)


main()
