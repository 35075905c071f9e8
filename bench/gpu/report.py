"""The table of race.py."""
import dataclasses
import datetime
import os
import pathlib
import statistics


@dataclasses.dataclass
class Line:
    """`turns`: images a second of each turn, by contestant."""

    race: object
    turns: dict = dataclasses.field(default_factory=dict)
    share: float = 0  # of the rate of products that `devices` measures
    memory_mib: int = 0  # of the GPU, Crema's
    notes: list = dataclasses.field(default_factory=list)

    def rate(self, name):
        return statistics.median(self.turns[name]) if name in self.turns else None

    def ratio(self, name):
        """Returns Crema's speed relative to that contestant: the median over the turns."""
        if name not in self.turns or "crema" not in self.turns:
            return None
        return statistics.median(a / b for a, b in zip(self.turns["crema"], self.turns[name]))


def _number(value, digits):
    return "" if value is None else f"{value:,.{digits}f}"


def row(line):
    race = line.race
    cells = [race.net, race.mode, race.precision, str(race.batch)]
    cells += [_number(line.rate(name), 1) for name in ("crema", "eager", "compiled")]
    cells += [_number(line.ratio(name), 2) for name in ("eager", "compiled")]
    cells += [f"{100 * line.share:.1f} %" if line.share else "",
              str(line.memory_mib) if line.memory_mib else "", "; ".join(line.notes)]
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _conditions(args, rates):
    import torch
    device = "the CPU" if args.device == "cpu" else torch.cuda.get_device_name(args.gpu)
    yield f"device: {device}"
    yield f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
    yield f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, " \
          f"cuDNN {torch.backends.cudnn.version()}"
    if rates:
        yield "products at best, 1e12 operations a second: " + ", ".join(
            f"{name} {rate / 1e3:.1f}" for name, rate in rates.items())


def write(path, lines, args, rates):
    text = "# Crema beside PyTorch\n\n"
    text += "".join(f"- {condition}\n" for condition in _conditions(args, rates))
    text += (
        "\nImages (of the transformer: sequences) a second, medians of turns, and how many times as "
        "fast as PyTorch\nCrema is. Inference waits behind each batch. Inputs lie on the device. "
        "PyTorch: channels_last, autocast\nbelow fp32. The share is that of Crema's products in "
        "the rate that `devices` measures.\n\n"
        "| net | mode | precision | batch | Crema | eager | compiled | / eager | / compiled | share "
        "| Crema's MiB | |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
    text += "".join(row(line) + "\n" for line in lines)
    part = pathlib.Path(str(path) + ".part")
    part.write_text(text)
    os.replace(part, path)
