#!/usr/bin/env python3
"""Writes what a release consists of, as SPDX 2.3 in JSON: Crema, its files, and the libraries of others.

A PATH is a folder (an installed tree, or folders of a build), a .deb, a .whl or a .tar.gz. Each
shared library that a program or library in it links, by itself or through others, is listed with the
Debian package that it is from, as ldd, dpkg and /usr/share/doc/*/copyright say on this machine: run
it where the artefacts were built. Libraries that a program loads when it runs are not listed.
SOURCE_DATE_EPOCH sets the time of the document.
"""

import argparse
import datetime
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NONE = "NOASSERTION"
# What is compiled into a file of this name and is not seen by ldd: name, a header of it that a Debian
# package has, or the licence and the place of what pip installs.
HEADERS = {
    r"serve": [("boost", "/usr/include/boost/version.hpp"), ("rapidjson", "/usr/include/rapidjson/rapidjson.h")],
    r"_core\..*so": [("nanobind", "BSD-3-Clause", "https://github.com/wjakob/nanobind"),
                     ("robin-map", "MIT", "https://github.com/Tessil/robin-map")],
}
# Files of others in the sources: name, licence, place.
VENDORED = {
    "tests/models/slim-320/slim-320.caffemodel":
        ("Ultra-Light-Fast-Generic-Face-Detector-1MB", "MIT",
         "https://github.com/Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB"),
}
# Debian's short names of licences, where SPDX has others.
SPDX = {name.lower(): name for name in (
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "curl", "FTL", "ISC", "Libpng", "MIT",
    "MPL-1.1", "MPL-2.0", "OpenSSL", "Unlicense", "Zlib")}
SPDX.update({"expat": "MIT", "gpl-1": "GPL-1.0", "gpl-2": "GPL-2.0", "gpl-3": "GPL-3.0", "lgpl-2": "LGPL-2.0",
             "lgpl-2.1": "LGPL-2.1", "lgpl-3": "LGPL-3.0"})
GNU = r"(L?GPL-\d(?:\.\d)?)(?:\.0)?(\+?)"


def output_of(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options).stdout


def identifier(text):
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-")


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


# ---- Debian ---------------------------------------------------------------------------------------


def spdx_name(short):
    """The name that SPDX has for a short name of Debian, or None."""
    gnu = re.fullmatch(GNU, short, re.IGNORECASE)
    if gnu:
        name = SPDX.get(gnu[1].lower())
        return name and name + ("-or-later" if gnu[2] else "-only")
    return SPDX.get(short.lower())


def paragraphs(text):
    """The paragraphs of a file in Debian's control format, as dicts of field and value."""
    for block in re.split(r"\n[ \t]*\n", text):
        fields = re.findall(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", block, re.MULTILINE)
        if fields:
            yield {name.lower(): value.strip() for name, value in fields}


def licence_of(package, text):
    """The licences of a Debian package as an expression, and the texts of those that SPDX does not name.

    `text` is its file copyright; NOASSERTION if that is not machine-readable.
    """
    if not re.match(r"\s*Format:.*copyright-format", text):
        return NONE, {}
    found = list(paragraphs(text))
    texts = {}
    for fields in found:
        name, _, body = fields.get("license", "").partition("\n")
        if body:
            texts.setdefault(name, "\n".join(line[1:] for line in body.split("\n")))
    extracted, expressions = {}, set()

    def term(short):
        known = spdx_name(short)
        if known:
            return known
        reference = f"LicenseRef-{identifier(package)}-{identifier(short)}"
        extracted[reference] = {"licenseId": reference, "name": short,
                                "extractedText": texts.get(short, short)}
        return reference

    for fields in found:
        patterns = fields.get("files", "").split()
        name = fields.get("license", "").partition("\n")[0]
        if not patterns or not name or all(pattern.startswith("debian/") for pattern in patterns):
            continue
        words = re.split(r"\s+(and|or)\s+", name)
        if len(words) == 1 or "," in name or " with " in name:
            words = [name]
        expression = " ".join(w.upper() if w in ("and", "or") else term(w) for w in words)
        expressions.add(f"({expression})" if " OR " in expression else expression)
    return (" AND ".join(sorted(expressions)) or NONE), extracted


class Debian:
    """What dpkg of this machine knows about files."""

    def __init__(self):
        release = dict(re.findall(r'^(\w+)="?([^"\n]*)', output_of("cat", "/etc/os-release"), re.MULTILINE))
        self.name, self.id = release.get("NAME", "Linux"), release.get("ID", "linux")
        listed = output_of("/sbin/ldconfig", "-p")
        self.folders = sorted({os.path.dirname(path) for path in re.findall(r"=> (/\S+)", listed)})

    @functools.cache  # dpkg-query takes a third of a second
    def package_of(self, path):
        """The SPDX package with the file, and texts of licences; (None, {}) if no package has it."""
        path = str(path)
        names = dict.fromkeys((path, os.path.realpath(path)))
        names.update(dict.fromkeys(n[4:] if n.startswith("/usr/") else "/usr" + n for n in list(names)))
        owner = re.match(r"([^\s:,]+)", output_of("dpkg-query", "-S", *names))
        return self.describe(owner[1]) if owner else (None, {})

    @functools.cache
    def describe(self, name):
        shown = output_of("dpkg-query", "-W", "-f", "${Version} ${Architecture}\n", name)
        version, architecture = shown.splitlines()[0].split()
        copyrights = pathlib.Path("/usr/share/doc", name, "copyright")
        text = copyrights.read_text(errors="replace") if copyrights.exists() else ""
        expression, extracted = licence_of(name, text)
        purl = f"pkg:deb/{self.id}/{name}@{version}?arch={architecture}".replace("+", "%2B")
        return package(f"deb-{name}", name, version, expression, supplier=f"Organization: {self.name}",
                       externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                      "referenceLocator": purl}]), extracted

    def original_of(self, name):
        """The file of the system of which a wheel has a copy: auditwheel adds the beginning of its SHA-256."""
        copy = re.fullmatch(r"(.+)-([0-9a-f]{8})(\.so.*)", name)
        for folder in self.folders if copy else ():
            path = os.path.join(folder, copy[1] + copy[3])
            if os.path.isfile(path) and sha256(path).startswith(copy[2]):
                return path
        return None


# ---- Artefacts ------------------------------------------------------------------------------------


def package(key, name, version, licence, place=NONE, **more):
    return {"SPDXID": "SPDXRef-" + identifier(key), "name": name, "versionInfo": version, "downloadLocation": place,
            "filesAnalyzed": False, "licenseConcluded": NONE, "licenseDeclared": licence,
            "copyrightText": NONE, **more}


def is_program(path):
    """A program or shared library (ELF, of the types EXEC and DYN)."""
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] in (b"\2\0", b"\3\0")


def unpack(path, folder):
    """The folder with the content of an artefact."""
    if path.is_dir():
        return path.resolve()
    folder.mkdir()
    if path.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", path, folder], check=True)
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    elif path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    else:
        raise SystemExit(f"error: {path} is neither a folder, nor a .deb, a .whl or a .tar.gz")
    return folder.resolve()


def linked(program, folders):
    """The paths of the libraries that a program links, by itself or through others."""
    environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    lines = output_of("ldd", program, env=environment)
    missing = re.findall(r"^\s*(\S+) => not found", lines, re.MULTILINE)
    if missing:
        raise SystemExit(f"error: {program} links {', '.join(missing)}, which is not on this machine; write the SBOM"
                         " where it was built, and name the packages of Crema that it needs too")
    return re.findall(r"(?:=> |^\s+)(/\S+) \(0x", lines, re.MULTILINE)


class Document:
    def __init__(self, version):
        self.packages, self.relationships, self.licences = {}, set(), {}
        text = (SOURCE / "LICENSE").read_text()
        self.root = package("crema", "crema", version, "BSD-2-Clause", supplier="Organization: The Crema authors")
        self.root["copyrightText"] = re.search(r"^Copyright.*", text, re.MULTILINE)[0]
        self.add("SPDXRef-DOCUMENT", "DESCRIBES", self.root)

    def add(self, source, kind, target, licences=()):
        self.packages[target["SPDXID"]] = target
        self.relationships.add((source, kind, target["SPDXID"]))
        self.licences.update(licences)

    def add_contents(self, owner, tree, debian):
        """What the files of an artefact contain that is not Crema's and that no tool sees."""
        for path in sorted(tree.rglob("*")):
            relative = path.relative_to(tree).as_posix()
            for suffix, (name, licence, place) in VENDORED.items():
                if relative.endswith(suffix):
                    self.add(owner, "CONTAINS", package(name, name, NONE, licence, place))
            for pattern, headers in HEADERS.items():
                if re.fullmatch(pattern, path.name) and is_program(path):
                    for name, *rest in headers:
                        found, licences = debian.package_of(rest[0]) if len(rest) == 1 else (None, {})
                        found = found or package(name, name, NONE, *(rest if len(rest) == 2 else (NONE,)))
                        self.add(owner, "STATIC_LINK", found, licences)

    def add_libraries(self, owner, tree, owners, folders, debian):
        """`owners`: the artefact (SPDXID) of each unpacked folder."""
        for program in filter(is_program, sorted(tree.rglob("*"))):
            original = debian.original_of(program.name)
            if original or re.search(r"-[0-9a-f]{8}\.so", program.name):  # a copy in a wheel
                found, licences = debian.package_of(original) if original else (None, {})
                self.add(owner, "CONTAINS", found or package(
                    f"file-{program.name}", program.name, NONE, NONE,
                    comment="Equal to no library of this machine: an empty stand-in that scripts/wheel.sh made, "
                            "or a copy of a library that has changed since."), licences)
                continue
            for library in linked(program, folders):
                home = [i for folder, i in owners.items() if folder in pathlib.Path(library).resolve().parents]
                if home:
                    if home[0] != owner:
                        self.relationships.add((owner, "DEPENDS_ON", home[0]))
                    continue
                found, licences = debian.package_of(library)
                name = os.path.basename(library)
                self.add(owner, "DEPENDS_ON", found or package(f"file-{name}", name, NONE, NONE), licences)

    def finish(self, created):
        body = {"packages": sorted(self.packages.values(), key=lambda p: p["SPDXID"]),
                "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                                  for a, kind, b in sorted(self.relationships)],
                "hasExtractedLicensingInfos": [self.licences[key] for key in sorted(self.licences)]}
        name = f"crema-{self.root['versionInfo']}"
        digest = hashlib.sha256(json.dumps([created, body]).encode()).hexdigest()
        return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
                "documentNamespace": f"https://crema.invalid/spdx/{name}-{digest}",
                "creationInfo": {"created": created, "creators": ["Organization: The Crema authors",
                                                                  "Tool: crema-scripts-release-sbom.py"]}, **body}


def describe(paths, version, created):
    """The SPDX document of some artefacts."""
    document, debian = Document(version), Debian()
    with tempfile.TemporaryDirectory() as work:
        trees, owners = [], {}
        for index, path in enumerate(paths):
            tree, owner = unpack(path, pathlib.Path(work, str(index))), document.root["SPDXID"]
            if path.is_file():
                artefact = package(f"artefact-{path.name}", path.name, version, "BSD-2-Clause",
                                   packageFileName=path.name,
                                   checksums=[{"algorithm": "SHA256", "checksumValue": sha256(path)}])
                document.add(owner, "CONTAINS", artefact)
                owner = artefact["SPDXID"]
            trees.append((path, tree, owner))
            owners[tree] = owner
        # A wheel finds its libraries in itself, a Debian package in others.
        folders = sorted({file.parent for path, tree, _ in trees if path.suffix != ".whl"
                          for file in tree.rglob("*.so*") if is_program(file)})
        for path, tree, owner in trees:
            document.add_contents(owner, tree, debian)
            document.add_libraries(owner, tree, owners, [] if path.suffix == ".whl" else folders, debian)
    return document.finish(created)


# ---- The rules of SPDX ----------------------------------------------------------------------------


def problems(document):
    """What contradicts the rules of SPDX 2.3, as far as such documents can."""
    for field, wanted in {"spdxVersion": r"SPDX-2\.3", "dataLicense": r"CC0-1\.0", "SPDXID": "SPDXRef-DOCUMENT",
                          "name": ".+", "documentNamespace": r"[a-z]+://[^#\s]+"}.items():
        if not re.fullmatch(wanted, str(document.get(field, ""))):
            yield f"{field} is {document.get(field)!r}"
    creation = document.get("creationInfo", {})
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", creation.get("created", "")):
        yield f"created is {creation.get('created')!r}"
    creators = creation.get("creators", [])
    if not creators or not all(re.match(r"(Person|Organization|Tool): .", creator) for creator in creators):
        yield f"creators are {creators!r}"
    ids, references = ["SPDXRef-DOCUMENT"], set()
    for entry in document.get("packages", []):
        name = entry.get("SPDXID", "")
        ids.append(name)
        if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name):
            yield f"a package has the SPDXID {name!r}"
        for field in ("name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"):
            if not entry.get(field):
                yield f"{name} has no {field}"
        if entry.get("filesAnalyzed") is not False:
            yield f"{name} says that its files are listed"
        references.update(re.findall(r"LicenseRef-[^\s()]+", entry.get("licenseDeclared", "")))
        for term in re.split(r"[\s()]+(?:AND|OR|WITH)[\s()]+", entry.get("licenseDeclared", "").strip("()")):
            if not re.fullmatch(r"[A-Za-z0-9.-]+", term):
                yield f"{name} has the licence {term!r}"
        for checksum in entry.get("checksums", []):
            if not re.fullmatch(r"[0-9a-f]{64}", checksum.get("checksumValue", "")):
                yield f"{name} has the checksum {checksum!r}"
    yield from (f"{name} stands for several elements" for name in sorted(set(ids)) if ids.count(name) > 1)
    texts = [entry.get("licenseId") for entry in document.get("hasExtractedLicensingInfos", [])]
    yield from (f"{name} has no text" for name in sorted(references - set(texts)))
    yield from (f"{name} is the licence of nothing, or twice there"
                for name in sorted(set(texts)) if name not in references or texts.count(name) > 1)
    reached, relationships = {"SPDXRef-DOCUMENT"}, document.get("relationships", [])
    for link in relationships:
        yield from (f"a relationship names {link.get(end)}, which is not there"
                    for end in ("spdxElementId", "relatedSpdxElement") if link.get(end) not in ids)
        if link.get("relationshipType") not in ("DESCRIBES", "CONTAINS", "DEPENDS_ON", "STATIC_LINK"):
            yield f"unknown relationship {link.get('relationshipType')!r}"
        reached.add(link.get("relatedSpdxElement"))
    yield from (f"{name} is related to nothing" for name in ids if name not in reached)
    if not any(link.get("relationshipType") == "DESCRIBES" for link in relationships):
        yield "the document describes nothing"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--output", "-o", required=True, type=pathlib.Path, metavar="FILE.spdx.json")
    flags = parser.parse_args()
    for path in flags.paths:
        if not path.exists():
            parser.error(f"{path} does not exist")
    version = re.search(r"^project\(Crema VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp())
    created = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = describe(flags.paths, version, created)
    wrong = list(problems(document))
    if wrong:
        sys.exit("error: the document would break the rules of SPDX:\n  " + "\n  ".join(wrong))
    flags.output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(f"{flags.output}: {len(document['packages'])} packages, "
          f"{sum(p['licenseDeclared'] == NONE for p in document['packages'])} of them without a known licence")


if __name__ == "__main__":
    main()
