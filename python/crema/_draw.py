"""Draws a net as SVG: layers from the top downwards, in ranks."""

from __future__ import annotations

import html
import re

# The lines of the C++ code's drawing in Graphviz's language.
_BOX = re.compile(r'  (\w+) \[(shape=ellipse, )?(.*?label="((?:[^"\\]|\\.)*)".*)\];')
_ARROW = re.compile(r"  (\w+) -> (\w+) \[")
_COLOUR = re.compile(r'fillcolor="(#\w+)"')

_LINE = 15  # height of a line of text
_LETTER = 6.6  # width of a letter, about
_GAP = 24  # between boxes of a rank
_RANK_GAP = 38  # between ranks
_STYLE = (
    "text{font:11px Helvetica,Arial,sans-serif;text-anchor:middle}"
    ".e{fill:none;stroke:#555}.b{stroke:#333}"
)


class _Box:
    def __init__(self, lines: list[str], colour: str, is_output: bool) -> None:
        self.lines = lines
        self.colour = colour  # empty: a place where a long arrow passes
        self.is_output = is_output
        self.width = max((len(line) for line in lines), default=0) * _LETTER + 16
        self.height: float = len(lines) * _LINE + 10 if lines else 0
        self.rank = 0
        self.x = self.y = 0.0  # of the centre
        self.inputs: list[_Box] = []
        self.outputs: list[_Box] = []


class _Arrow:
    def __init__(self, start: _Box, end: _Box) -> None:
        self.path = [start, end]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


def _parse(dot: str) -> tuple[list[_Box], list[_Arrow]]:
    boxes: dict[str, _Box] = {}
    arrows = []
    for line in dot.splitlines():
        if arrow := _ARROW.match(line):
            arrows.append(_Arrow(boxes[arrow[1]], boxes[arrow[2]]))
        elif (box := _BOX.match(line)) and (colour := _COLOUR.search(line)):
            lines = _unescape(box[4]).split("\n")
            boxes[box[1]] = _Box(lines, colour[1], box[2] is not None)
    return list(boxes.values()), arrows


def _ranks(boxes: list[_Box], arrows: list[_Arrow]) -> list[list[_Box]]:
    """Assigns ranks, and gives long arrows a place in each rank that they cross."""
    arrows_from: dict[_Box, list[_Arrow]] = {}
    for arrow in arrows:
        arrows_from.setdefault(arrow.path[0], []).append(arrow)
    for box in boxes:  # producers come first
        for arrow in arrows_from.get(box, []):
            arrow.path[1].rank = max(arrow.path[1].rank, box.rank + 1)
    ranks: list[list[_Box]] = [[] for _ in range(max(box.rank for box in boxes) + 1)]
    for box in boxes:
        ranks[box.rank].append(box)
    for arrow in arrows:
        start, end = arrow.path
        passed = [_Box([], "", False) for _ in range(start.rank + 1, end.rank)]
        for rank, place in enumerate(passed, start.rank + 1):
            place.rank = rank
            ranks[rank].append(place)
        arrow.path = [start, *passed, end]
        for one, other in zip(arrow.path, arrow.path[1:]):
            one.outputs.append(other)
            other.inputs.append(one)
    return ranks


def _place(rank: list[_Box], neighbours: str) -> None:
    """Sorts a rank by the mean place of its neighbours, and moves its boxes there, without
    overlaps."""
    wanted = {}
    for box in rank:
        near = getattr(box, neighbours)
        wanted[box] = sum(other.x for other in near) / len(near) if near else box.x
    rank.sort(key=lambda box: wanted[box])
    # Boxes that touch move as one group, to the mean of what its members want.
    groups: list[tuple[list[_Box], list[float]]] = []  # boxes, offsets of their centres
    for box in rank:
        group: tuple[list[_Box], list[float]] = ([box], [0.0])
        while groups:
            before, offsets = groups[-1]
            last = before[-1]
            start = _middle(before, offsets, wanted)
            step = (last.width + group[0][0].width) / 2 + _GAP
            if _middle(*group, wanted) >= start + offsets[-1] + step:
                break
            moved = [offsets[-1] + step + offset for offset in group[1]]
            group = (before + group[0], offsets + moved)
            groups.pop()
        groups.append(group)
    for members, offsets in groups:
        start = _middle(members, offsets, wanted)
        for box, offset in zip(members, offsets):
            box.x = start + offset


def _middle(boxes: list[_Box], offsets: list[float], wanted: dict[_Box, float]) -> float:
    return sum(wanted[box] - offset for box, offset in zip(boxes, offsets)) / len(boxes)


def _arrow_svg(arrow: _Arrow) -> str:
    start, end = arrow.path[0], arrow.path[-1]
    x, y = start.x, start.y + start.height / 2
    path = f"M{x:.1f},{y:.1f}"
    for place in arrow.path[1:]:
        top = place.y - place.height / 2 - (5 if place is end else 0)
        bend = (y + top) / 2
        path += f"C{x:.1f},{bend:.1f} {place.x:.1f},{bend:.1f} {place.x:.1f},{top:.1f}"
        x, y = place.x, place.y + place.height / 2
        if place is not end:
            path += f"V{y:.1f}"
    return f'<path class="e" marker-end="url(#crema-arrow)" d="{path}"/>'


def _box_svg(box: _Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    radius = box.height / 2 if box.is_output else 4
    parts = [
        f'<rect class="b" x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height}" rx="{radius:.0f}" fill="{box.colour}"/>'
    ]
    for k, line in enumerate(box.lines):
        y = top + 5 + _LINE * k + 11
        parts.append(f'<text x="{box.x:.1f}" y="{y:.1f}">{html.escape(line)}</text>')
    return "".join(parts)


def svg(dot: str) -> str:
    """Returns an SVG image of a net that the C++ code describes in Graphviz's language."""
    boxes, arrows = _parse(dot)
    if not boxes:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
    ranks = _ranks(boxes, arrows)
    for _ in range(3):
        for rank in ranks:
            _place(rank, "inputs")
        for rank in reversed(ranks):
            _place(rank, "outputs")
    y = 10.0
    for rank in ranks:
        height = max(box.height for box in rank)
        for box in rank:
            box.y = y + height / 2
            box.height = box.height or height
        y += height + _RANK_GAP
    left = min(box.x - box.width / 2 for box in boxes) - 10
    right = max(box.x + box.width / 2 for box in boxes) + 10
    width, height = right - left, y - _RANK_GAP + 10
    drawn = "".join(map(_arrow_svg, arrows)) + "".join(map(_box_svg, boxes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left:.1f} 0 {width:.1f} {height:.1f}"><style>{_STYLE}</style>'
        '<defs><marker id="crema-arrow" viewBox="0 0 6 6" refX="1" refY="3" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0,0L6,3L0,6z" fill="#555"/></marker></defs>'
        f"{drawn}</svg>\n"
    )
