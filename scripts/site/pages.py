"""Hooks of MkDocs for `make site`: which pages there are, and where their links go.

Pages of the repository keep their paths, so that their relative links work as on a forge. Generated
at each build, and in no other place: a page for each layer (docs/layers.md, divided), for each command
(its manual), and for the interfaces for C, C++ and Python.
Environment: CREMA_BUILD, the build folder. Graphviz draws the layers; without it they have no picture.
"""

import concurrent.futures
import fnmatch
import html
import json
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, os.path.dirname(__file__))
import formula  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CREMA_BUILD", "build")).absolute()
HEADERS = {"include/crema/crema.h": "c", "include/crema/deploy.h": "cpp", "include/crema/plugin.h": "c"}
STUB = BUILD / "python/crema/_core.pyi"
generated = {}  # path in the site: its text, or bytes
tracked = []  # files of the repository


def output_of(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise PluginError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


# ---- Layers -----------------------------------------------------------------------------------


def availability(facts):
    """A table of devices and formats, and a note about the gradient."""
    names = list(dict.fromkeys(name.split(",")[0] for name in facts["cpu"]))
    kinds = {"BF16": [n for n in names if "bf16" in n], "INT8": [n for n in names if "int8" in n]}
    kinds["FP32"] = [n for n in names if n not in kinds["BF16"] + kinds["INT8"]]
    code = {kind: ", ".join(f"`{name}`" for name in found) or "–" for kind, found in kinds.items()}
    half = "yes" if facts["bits16"] else "–"
    if facts["gradient"]:
        gradient = f"yes; the tests compare it with numeric differences ({facts['samples']} samples)"
    else:
        gradient = "none" if facts["samples"] else "not covered by the general tests of gradients"
    return f"""
**Gradient**: {gradient}

**Availability**

| | FP32 | TF32 | BF16 | FP16 | INT8 |
|---|---|---|---|---|---|
| CPU | {code['FP32']} | – | {code['BF16']} | – | {code['INT8']} |
| GPU | yes | {'yes' if facts['tf32'] else '–'} | {half} | {half} | – |

Names are those of `summary --plan`, in this build. [Which one runs](../development/implementations.md) depends on
the parameters, the shapes and the processor. [GPUs](../gpus.md) says what has been tested there.
"""


def picture(name, text):
    """Draws the example, with an Input layer for each bottom that has a shape; None: no drawing."""
    example = re.search(r"\n```\n(layer \{.*?)\n```", text, re.S)
    shapes = re.findall(r'bottom: "(\w+)"  # ([\dx]+)\n', example.group(1)) if example else []
    if not shapes or not shutil.which("dot"):
        return None
    net = f'name: "{name}"\n'
    for blob, shape in shapes:
        dims = " ".join(f"dim: {size}" for size in shape.split("x"))
        net += f'layer {{ name: "{blob}" type: "Input" top: "{blob}" input_param {{ shape {{ {dims} }} }} }}\n'
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "net.prototxt").write_text(net + example.group(1))
        done = subprocess.run([BUILD / "bin/draw", "--model=net.prototxt", "-o", "net.svg", "-q"],
                              cwd=folder, capture_output=True)
        return (path / "net.svg").read_bytes() if done.returncode == 0 else None


def layer_page(name, text, facts, drawing):
    names = set(re.findall(r"^\| `(\w+)` \|", text, re.M)) | set(re.findall(r"^\d+\. (\w+)[:,]", text, re.M))
    first = re.search(r"\n```\n(?!layer \{)(.*?)\n```\n", text, re.S)
    if first:
        plain_text = f'<p class="formula"><code>{html.escape(first.group(1))}</code></p>'
        math = formula.to_mathml(first.group(1), names) or plain_text
        text = text[: first.start()] + f"\n{math}\n" + text[first.end():]
    text = text.replace("\n```\nlayer {", "\n```protobuf\nlayer {")
    body, example, rest = text.partition("\nExample:\n")
    shapes = f"\n![{name} with the shapes of its inputs and outputs]({name}.svg)\n" if drawing else ""
    return f"# {name}\n{body}{availability(facts)}{example}{rest}{shapes}"


def make_layers():
    """Divides docs/layers.md. Returns the nav: families, each with its types."""
    text = (ROOT / "docs/layers.md").read_text()
    facts = {f["type"]: f for f in map(json.loads, output_of(BUILD / "dev/layer_reference", "--facts").splitlines())}
    head, *families = re.split(r"\n# (?=\w)", text.partition("# Layers\n")[2])
    anchors = {name.lower(): name for name in facts}

    def link(place):  # to the pages of layers; messages stay in docs/layers.md
        def target(match):
            anchor = match.group(1)
            return f"]({place}{anchors[anchor]}.md)" if anchor in anchors else f"]({messages}#{anchor})"

        def links(part):
            part = part if place else re.sub(r"\]\((?=[\w/]+\.md)", "](../", part)
            return re.sub(r"\]\(#([\w-]+)\)", target, part)

        messages = "" if place else "../layers.md"
        return links

    index, nav = "# Layers\n" + link("layers/")(head.split("\n- ")[0]) + "\n", []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for family in families:
            title, *types = family.split("\n## ")
            title = title.split("\n")[0].strip()
            if title == "Shared messages":
                index += "\n## Shared messages\n" + "".join("\n### " + link("layers/")(part) for part in types)
                continue
            index += f"\n## {title.capitalize()}\n\n| Layer | Purpose |\n|---|---|\n"
            parts = dict(part.split("\n", 1) for part in types)
            missing = parts.keys() - facts.keys()
            if missing:
                raise PluginError(f"this build has no {', '.join(missing)}: build with OpenCV and HDF5")
            for (name, part), drawing in zip(parts.items(), pool.map(picture, parts, parts.values())):
                index += f"| [{name}](layers/{name}.md) | {link('layers/')(part.strip().splitlines()[0])} |\n"
                generated[f"docs/layers/{name}.md"] = layer_page(name, link("")(part), facts[name], drawing)
                if drawing:
                    generated[f"docs/layers/{name}.svg"] = drawing
            nav.append({title.capitalize(): [f"docs/layers/{name}.md" for name in parts]})
    generated["docs/layers.md"] = index
    return ["docs/layers.md"] + nav


# ---- Commands ---------------------------------------------------------------------------------


def plain(roff):
    return roff.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\").replace("\\&", "")


def prose(text):
    """Text of a manual in Markdown: signs of Markdown and HTML stand for themselves."""
    text = re.sub(r"`[^`]*`|[*_<>|\[\]#]", lambda sign: sign[0] if sign[0][0] == "`" else f"&#{ord(sign[0])};", text)
    return re.sub(r"docs/((?:\w|/|&#95;)+)\.md",
                  lambda page: f"[{page[0]}](../{page[1]}.md)".replace("&#95;", "_"), text)


def command_page(name):
    manual = output_of(BUILD / "bin" / name, "--help=man")
    lines, page, code, at = manual.splitlines(), f"# {name}\n", False, 0
    while at < len(lines):
        line = plain(lines[at])
        at += 1
        if line in (".nf", ".fi"):
            code = line == ".nf"
            page += "\n```text\n" if code else "```\n"
        elif code:
            page += ("" if line == ".sp" else line) + "\n"
        elif line.startswith((".SH ", ".SS ")):
            title = line[4:].strip('"')
            if title in ("NAME", "SEE ALSO"):  # the index and the menu have them
                at += 1
                while at < len(lines) and not lines[at].startswith(".SH"):
                    at += 1
                continue
            page += f"\n{'##' if line.startswith('.SH') else '###'} {title.capitalize()}\n\n"
        elif line == ".TP":
            flag = re.sub(r"\\f[BR]", "", plain(lines[at]))
            at += 1
            page += f"\n`{flag}`\n:   "
        elif line == ".PP":
            page += "\n"
        elif not line.startswith("."):
            page += prose(line) + "\n"
    return page


def make_commands():
    index, nav = "# Commands\n\nEach page is the manual of a command: `man crema-NAME`, `crema NAME --help`.\n", []
    for line in output_of(BUILD / "bin/crema", "--help").split("\n\n", 1)[1].splitlines():
        group, entry = re.fullmatch(r"(\w+):", line), re.fullmatch(r"  (\w+) +(\S.*)", line)
        if group:
            index += f"\n## {group.group(1)}\n\n| Command | Purpose |\n|---|---|\n"
        elif entry and (BUILD / "bin" / entry.group(1)).exists():
            name, purpose = entry.groups()
            index += f"| [`{name}`](commands/{name}.md) | {prose(purpose)} |\n"
            generated[f"docs/commands/{name}.md"] = command_page(name)
            nav.append(f"docs/commands/{name}.md")
    generated["docs/commands.md"] = index
    return ["docs/commands.md"] + nav


# ---- Interfaces -------------------------------------------------------------------------------


def header_page(path, language):
    """The groups of lines of a header: the comment in front as text, the declarations as code."""
    page = f"# {path.removeprefix('include/')}\n\nThe header itself, in parts.\n"
    text = re.sub(r"\n+ private:\n.*?\n\};", "\n};", (ROOT / path).read_text(), flags=re.S)
    for group in re.split(r"\n\s*\n", text):
        comment = re.match(r"\s*(/\*.*?\*/|(?://[^\n]*(?:\n|$))+)\s*", group, re.S)
        text, code = (comment.group(1), group[comment.end():]) if comment else ("", group)
        code = re.sub(r"^#(?!define \w+ \S).*$|^#define \w+_API .*$", "", code, flags=re.M)  # guards, linkage
        code = re.sub(r'^(?:extern "C" \{|\}( .*)?)$\n?', "", code, flags=re.M) if "typedef" not in code else code
        text = re.sub(r"^\s*(?:/\*|\*/|\*|//) ?|\*/$", "", text, flags=re.M).strip()
        name = re.search(r"(?:class|struct|enum(?: class)?)(?: CREMA_API)? (\w+)[^;]*\{|\b(\w+)\(", code)
        if name:
            page += f"\n## {name.group(1) or name.group(2)}\n"
        if text:
            page += "\n" + (f"```text\n{text}\n```" if "\n  " in text else prose(text)) + "\n"
        if code.strip():
            page += f"\n```{language}\n{code.strip(chr(10))}\n```\n"
    return page


def make_api():
    nav = []
    for path, language in HEADERS.items():
        generated[f"docs/api/{pathlib.Path(path).stem}_h.md"] = header_page(path, language)
        nav.append(f"docs/api/{pathlib.Path(path).stem}_h.md")
    parts, note = ["crema", "crema.data", "crema.dnn"], ""
    if not STUB.exists():
        note = "\nThis site was built without `-DCREMA_PYTHON=ON`: Blob, Model, Net, Solver and some functions are missing.\n"
    page = "# The Python package crema\n\nAn introduction is on [its own page](../python.md).\n" + note
    for part in parts:
        page += f"\n## {part}\n\n::: {part}\n    options: {{heading_level: 3, filters: ['!^_']}}\n"
    generated["docs/api/python.md"] = page
    return nav + ["docs/api/python.md"]


# ---- MkDocs -----------------------------------------------------------------------------------


def on_startup(command, dirty):
    """Stages the Python package, with the stub in the place of the module that it describes."""
    stage = BUILD / "site-python/crema"
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(ROOT / "python/crema", stage)
    if STUB.exists():
        shutil.copy(STUB, stage / "_core.py")


def on_config(config):
    tracked[:] = output_of("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    made = {"@layers": make_layers(), "@commands": make_commands(), "@api": make_api()}

    def expand(entry):
        if isinstance(entry, dict):
            (title, below), = entry.items()
            below = made[below] if isinstance(below, str) else [e for part in below for e in expand(part)]
            return [{title: below}]
        return sorted(fnmatch.filter(tracked, entry)) if "*" in entry else [entry]

    config.nav = [e for part in config.nav for e in expand(part)]
    return config


def on_files(files, config):
    pages = [path for path in tracked if path.endswith(".md") and path not in generated]
    for path in pages + [path for path in tracked if path.startswith("docs/images/")]:
        if (ROOT / path).exists():
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path, content in generated.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Sends links to files that are no pages to the page about them, or removes the link."""
    here = posixpath.dirname(page.file.src_uri)

    def target(match):
        text, place = match.groups()
        path, _, anchor = place.partition("#")
        if not path or ":" in path:
            return match.group(0)
        full = posixpath.normpath(posixpath.join(here, path))
        if full == "docs/layers.md" and anchor:
            name = next((p for p in generated if p.lower() == f"docs/layers/{anchor}.md"), None)
            return f"[{text}]({posixpath.relpath(name, here)})" if name else match.group(0)
        if full in HEADERS:
            return f"[{text}]({posixpath.relpath(f'docs/api/{pathlib.Path(full).stem}_h.md', here)})"
        if f"{full}/README.md" in tracked:
            return f"[{text}]({path.rstrip('/')}/README.md)"
        return text if files.get_file_from_path(full) is None and (ROOT / full).exists() else match.group(0)

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not line.startswith("    "):
            line = re.sub(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)", target, line)
            if line.startswith("|"):  # GitHub's tables need \| in code too, Python's do not
                line = re.sub(r"`[^`]*`", lambda code: code.group(0).replace("\\|", "|"), line)
        lines.append(line)
    return "\n".join(lines)
