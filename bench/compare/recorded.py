"""Times that were measured elsewhere, to stand beside the raced ones: a table with tabs."""

# Names of nets there.
_NAMES = {"lenet": "lenet_train_test", "cifar10_quick": "cifar10_quick_train_test"}


def read(path):
    """{(net, mode, batch, threads): ms} of the rows.

    Columns go by their names in the first line that is no comment: net, batch, threads, mode,
    total_ms.
    """
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    found = {}
    for row in rows[1:]:
        values = dict(zip(rows[0], row))
        key = values["net"], values["mode"], int(values["batch"]), int(values["threads"])
        found[key] = float(values["total_ms"])
    return found


def time_of(times, values):
    """Returns the time for the net, mode, batch and threads of an entry; None without one."""
    name = _NAMES.get(values["net"], values["net"])
    return times.get((name, values["mode"], values["batch"], values["threads"]))
