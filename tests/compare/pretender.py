"""Speaks the protocol of a contestant and computes nothing.

Usage: pretender.py JSON: name, diary (a file that gets a line when a run begins and ends), outputs
(floats), losses, seconds (what each run says it took), dies_at (a command that ends it).
"""
import array
import json
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

    note("starts")
    if values.get("dies_at") == "start":
        answer(error="cannot read this net")
        return
    answer(ready=True, loss=next(losses))
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == values.get("dies_at"):
            sys.exit(3)
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
        elif command == "updates":
            answer(difference=values.get("difference", 0))
        elif command == "memory":
            answer(peak_kb=2048)


main()
