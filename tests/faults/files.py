"""Damaged files: each command must end by itself, with an exit code of its own."""
import shutil

from common import HERE


def damage(random, data):
    """Bits flipped, bytes replaced, or the end cut off."""
    data = bytearray(data)
    if not data:
        return b"\0"
    if random.random() < 0.25:
        return bytes(data[:random.randrange(len(data))])
    # Heads and tails hold most of the structure.
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        at = random.randrange(len(data))
        if random.random() < 0.5:
            at = random.choice((at % 300, -1 - at % 200)) % len(data)
        data[at] = random.choice((data[at] ^ 1 << random.randrange(8), 0, 127, 255,
                                  random.randrange(256)))
    return bytes(data)


def cases(world):
    """For each kind of file: its place below the whole files, and commands that read it."""
    whole, c = world.whole, world.command
    model = f"--model={whole}/deploy.prototxt"
    weights = f"--weights={whole}/s_iter_6.caffemodel"

    def classify(model_flags, picture):
        return c("deploy", "classify", *model_flags, picture)

    def train(*flags):
        return c("train", f"--solver={whole}/solver.prototxt", "--threads=1", *flags)

    def run_of_data(path):
        return [c("check_data", path), c("convert_db", path, "out")]

    return {
        "net prototxt": ("deploy.prototxt", lambda p: [
            c("summary", f"--model={p}"), classify([f"--model={p}", weights], world.picture)]),
        "solver prototxt": ("solver.prototxt", lambda p: [c("check", f"--solver={p}")]),
        "caffemodel": ("s_iter_6.caffemodel", lambda p: [
            c("upgrade", p, "-o", "up.caffemodel"),
            classify([model, f"--weights={p}"], world.picture)]),
        "HDF5 weights": ("h_iter_6.caffemodel.h5", lambda p: [
            classify([model, f"--weights={p}"], world.picture)]),
        "solverstate": ("s_iter_6.solverstate", lambda p: [train(f"--snapshot={p}")]),
        "HDF5 solverstate": ("h_iter_6.solverstate.h5", lambda p: [train(f"--snapshot={p}")]),
        ".crema": ("m.crema", lambda p: [classify([f"--model={p}"], world.picture)]),
        "LMDB": ("set/data.mdb", lambda p: run_of_data(p.parent)),
        "HDF5 data": ("hdf5", lambda p: run_of_data(p.parent if p.parent.name == "hdf5" else p)),
        "tar": ("tar", lambda p: run_of_data(p.parent if p.parent.name == "tar" else p)),
        "PNG": (world.picture.name, lambda p: [classify([f"--model={whole}/m.crema"], p)]),
        "JPEG": ("faces.jpg", lambda p: [classify([f"--model={whole}/m.crema"], p)]),
    }


def run(world):
    shutil.copy(HERE.parent / "models/slim-320/faces.jpg", world.whole)
    kinds = list(cases(world).items())
    for i in world.rounds():
        kind, (name, commands) = kinds[i % len(kinds)]
        with world.folder() as folder:
            source = world.whole / name
            target = folder / name
            if source.is_dir():
                shutil.copytree(source, target)
                target = world.random.choice(sorted(p for p in target.rglob("*") if p.is_file()))
            else:
                target.parent.mkdir(exist_ok=True)
                shutil.copy(source, target)
            target.write_bytes(damage(world.random, target.read_bytes()))
            for command in commands(target):
                world.note_result(f"files: damaged {kind}", world.run(command, folder),
                                  f"round {i}, {' '.join(command[:2])}")
                shutil.rmtree(folder / "out", ignore_errors=True)
