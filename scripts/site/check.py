"""Checks the pages of the repository, with Python alone; prints file:line: message, and fails.

Every relative link names a file or folder that is tracked, and a heading that the page has. Every page
is in the nav of mkdocs.yml, once. usage: check.py
"""

import fnmatch
import pathlib
import posixpath
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def text_lines(text):
    """(number, line) of what is not code."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and (fence is None or line.strip() == fence):
            fence = mark.group(1) if fence is None else None
        elif fence is None and not line.startswith("    "):
            yield number, line


def anchors_of(text):
    """The ids that a forge and MkDocs give the headings of a page."""
    seen = {}
    for _, line in text_lines(text):
        heading = re.match(r"#+ +(.*?)\s*#*$", line)
        if heading:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
            yield slug if seen[slug] == 0 else f"{slug}-{seen[slug]}"
        yield from re.findall(r'<a (?:id|name)="([^"]+)"', line)


def dead_links(pages, tracked):
    """`pages`: path and text of each; `tracked`: paths of all files."""
    folders = {parent.as_posix() for path in tracked for parent in pathlib.PurePosixPath(path).parents}
    anchors = {path: set(anchors_of(text)) for path, text in pages.items()}
    for path, text in pages.items():
        for number, line in text_lines(text):
            for link in re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", link):
                    continue
                place, _, anchor = link.partition("#")
                full = posixpath.normpath(posixpath.join(posixpath.dirname(path), place)) if place else path
                if full not in tracked and full not in folders:
                    yield f"{path}:{number}: dead link: {link}"
                elif anchor and anchor not in anchors.get(full, ()):
                    yield f"{path}:{number}: {full} has no heading #{anchor}"


def outside_nav(pages, nav):
    """`nav`: patterns of paths."""
    for path in pages:
        times = sum(fnmatch.fnmatch(path, pattern) for pattern in nav)
        if times != 1:
            yield f"{path}:1: is {times} times in the nav of scripts/site/mkdocs.yml; expected once"


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        sys.exit("check.py: not a git checkout; nothing was checked")
    tracked = {path for path in listed.stdout.splitlines() if (ROOT / path).exists()}
    pages = {path: (ROOT / path).read_text() for path in sorted(tracked) if path.endswith(".md")
             and not path.startswith(".github/")}  # templates
    nav = re.findall(r"- (\w[\w./*-]*\.md)$", (ROOT / "scripts/site/mkdocs.yml").read_text(), re.M)
    nav.append("docs/layers.md")  # of @layers
    faults = [*dead_links(pages, tracked), *outside_nav(pages, nav)]
    print("\n".join(faults) if faults else f"{len(pages)} pages: every link leads somewhere, every page is in the nav")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
