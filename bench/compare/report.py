"""The results of races as JSON and Markdown."""
import json

import race
import recorded


def entry(course, runner, first, conditions):
    """One contestant of one race; `first` is Crema's runner, which the others are compared with.

    `conditions`: under which the race was held, by name.
    """
    values = {"net": course.net.name, "mode": course.mode, "batch": course.batch,
              "precision": course.precision, "threads": course.threads,
              "contestant": runner.name}
    values["conditions"] = conditions
    if runner.why_out:
        return {**values, "skipped": runner.why_out}
    seconds = [time for turn in runner.turns for time in turn]
    low, middle, high = race.quartiles(seconds)
    values.update({
        "median_ms": 1e3 * middle, "q1_ms": 1e3 * low, "q3_ms": 1e3 * high, "runs": len(seconds),
        "images_per_second": course.batch / middle, "error": runner.error,
        "peak_rss_mb": runner.facts["peak_kb"] / 1024,
        "imported_rss_mb": runner.facts.get("imported_kb", 0) / 1024,
        "cold_start_ms": 1e3 * race.quartiles(runner.cold_starts)[1],
        "load_ms": 1e3 * runner.facts["load_seconds"] if "load_seconds" in runner.facts else None})
    if not first.why_out:
        values["times_crema"] = race.quartiles(_ratios(runner, first))
    return values


def _ratios(runner, first):
    """Returns the contestant's time divided by Crema's, for each turn."""
    return [race.quartiles(theirs)[1] / race.quartiles(ours)[1]
            for theirs, ours in zip(runner.turns, first.turns)]


def read_json(path):
    """The entries that write_json wrote; none where there is no such file."""
    if not path.exists():
        return []
    values = json.loads(path.read_text(encoding="utf-8"))
    about = dict(values.get("about", {}))  # of all entries, in files of older versions
    older = {"threads": about.pop("threads", None), "conditions": about}
    return [{**older, **e} for e in values["entries"]]


def replace(entries, newer):
    """`entries` with all that `newer` has of the same races put in their place."""
    raced = {_key(e) for e in newer}
    return [e for e in entries if _key(e) not in raced] + newer


def write_json(path, entries):
    path.write_text(json.dumps({"entries": entries}, indent=1) + "\n", encoding="utf-8")


def write_markdown(path, entries, caffe=None):
    """`caffe`: recorded times (recorded.read) for a column of their own."""
    lines = ["# Crema and its peers", "", *_ABOUT, "", *_conditions(entries)]
    lines += ["", "## Times of the peers' time to Crema's", "", *_summary(entries, caffe or {})]
    lines += ["", "## Everything", "", *_details(entries)]
    lines += ["", "## Left out", "", *_skipped(entries)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


_ABOUT = (
    "`bench/compare.sh` (bench/compare/README.md). All of a row took turns in one run, never two",
    "at a time, with the same threads, weights and inputs, after their results were found to",
    "agree. Times are medians over all runs, with their quartiles; a ratio is the median of those",
    "of the turns, and above 1 where Crema is faster. Recorded times took no turns here: scale",
    "them by sgemm.",
)


_KEY = ("net", "mode", "batch", "precision", "threads")


def _key(values):
    return tuple(values[name] for name in _KEY)


def _table(titles, rows):
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def _conditions(entries):
    """Returns the conditions of all races, then a table of those that differ."""
    races = {_key(e): e["conditions"] for e in entries}
    names = list(dict.fromkeys(name for values in races.values() for name in values))
    found = {name: {values.get(name, "–") for values in races.values()} for name in names}
    differing = [name for name in names if len(found[name]) > 1]
    lines = [f"- {name}: {found[name].pop()}" for name in names if name not in differing]
    if differing:
        rows = [[*key, *(values.get(name, "–") for name in differing)]
                for key, values in races.items()]
        lines += ["", "Not all races were held under the same conditions:", "",
                  *_table([*_KEY, *differing], rows)]
    return lines


def _summary(entries, caffe):
    peers = list(dict.fromkeys(e["contestant"] for e in entries if e["contestant"] != "crema"))
    rows = []
    for key in dict.fromkeys(_key(e) for e in entries):
        row = {e["contestant"]: e for e in entries if _key(e) == key}
        cells = [_ratio(row.get(peer, {})) for peer in peers]
        ours = row.get("crema", {})
        rows.append([*key, _number(ours.get("median_ms")), _recorded_ratio(ours, caffe), *cells])
    return _table([*_KEY, "Crema ms", "recorded Caffe", *peers], rows)


def _recorded_ratio(ours, caffe):
    theirs = recorded.time_of(caffe, ours) if "median_ms" in ours else None
    return "–" if theirs is None else f"{theirs / ours['median_ms']:.2f} ({_number(theirs)} ms)"


def _ratio(values):
    if "times_crema" not in values:
        return "–"
    low, middle, high = values["times_crema"]
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _details(entries):
    titles = [*_KEY, "contestant", "ms", "quartiles", "images/s", "peak MB", "of it libraries",
              "cold start ms", "of it after imports", "difference"]
    rows = [[*_key(e), e["contestant"], _number(e["median_ms"]),
             f"{_number(e['q1_ms'])} to {_number(e['q3_ms'])}", _number(e["images_per_second"]),
             f"{e['peak_rss_mb']:.0f}", f"{e['imported_rss_mb']:.0f}", f"{e['cold_start_ms']:.0f}",
             _number(e["load_ms"]), f"{e['error']:.1g}"]
            for e in entries if "skipped" not in e]
    return _table(titles, rows)


def _number(value):
    """Three digits."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _skipped(entries):
    return [f"- {' '.join(map(str, _key(e)[:-1]))}, {e['threads']} threads, {e['contestant']}: " +
            " ".join(e["skipped"].split())[:300]
            for e in entries if "skipped" in e] or ["Nothing."]
