"""Tests of scripts/release/sbom.py with a tree of one program of the system."""
import copy
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "release" / "sbom.py"
spec = importlib.util.spec_from_file_location("sbom", SCRIPT)
sbom = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sbom)

COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2020 Somebody
License: Expat

Files: a/* b
License: GPL-2+ or Artistic

Files: debian/*
License: GPL-3

License: Artistic
 The text of the
 Artistic License.
"""


class Sbom(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        (self.folder / "tree/bin").mkdir(parents=True)
        shutil.copy("/bin/true", self.folder / "tree/bin/program")
        (self.folder / "tree/bin/script").write_text("#!/bin/sh\n")

    def write(self, *paths, fails=False):
        output = self.folder / "out.json"
        done = subprocess.run([sys.executable, SCRIPT, *paths, "--output", output], text=True, capture_output=True,
                              env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000"})
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return done.stderr if fails else json.loads(output.read_text())

    def related(self, document, kind):
        names = {p["SPDXID"]: p["name"] for p in document["packages"]}
        return {names[r["relatedSpdxElement"]] for r in document["relationships"] if r["relationshipType"] == kind}

    def test_lists_crema_and_the_library_that_a_program_links(self):
        document = self.write(self.folder / "tree")
        self.assertEqual(list(sbom.problems(document)), [])
        self.assertEqual(self.related(document, "DESCRIBES"), {"crema"})
        # The C library, by its Debian package where there is dpkg.
        self.assertTrue(self.related(document, "DEPENDS_ON") & {"libc6", "libc.so.6"}, document["relationships"])
        self.assertEqual(document["creationInfo"]["created"], "2001-09-09T01:46:40Z")

    def test_writes_the_same_bytes_again(self):
        self.write(self.folder / "tree")
        first = (self.folder / "out.json").read_bytes()
        self.write(self.folder / "tree")
        self.assertEqual((self.folder / "out.json").read_bytes(), first)

    def test_an_artefact_has_its_checksum_and_what_it_contains_of_others(self):
        path = self.folder / "crema.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("crema/" + next(iter(sbom.VENDORED)))
            info.size = 3
            archive.addfile(info, io.BytesIO(b"net"))
        document = self.write(path)
        names = {p["name"]: p for p in document["packages"]}
        self.assertEqual(names["crema.tar.gz"]["checksums"][0]["checksumValue"], sbom.sha256(path))
        self.assertIn("Ultra-Light-Fast-Generic-Face-Detector-1MB", self.related(document, "CONTAINS"))

    def test_vendored_files_are_where_the_list_says(self):
        for path in sbom.VENDORED:
            self.assertTrue((sbom.SOURCE / path).exists(), path)

    def test_refuses_a_path_that_it_cannot_read(self):
        self.assertIn("nothing.deb does not exist", self.write(self.folder / "nothing.deb", fails=True))
        other = self.folder / "tree/bin/script"
        self.assertIn("neither a folder, nor a .deb", self.write(other, fails=True))

    def test_licences_of_debian_become_those_of_spdx(self):
        expression, extracted = sbom.licence_of("libx1", COPYRIGHT)
        self.assertEqual(expression, "(GPL-2.0-or-later OR LicenseRef-libx1-Artistic) AND MIT")
        self.assertEqual(extracted["LicenseRef-libx1-Artistic"]["extractedText"],
                         "The text of the\nArtistic License.")
        self.assertEqual(sbom.licence_of("libx1", "This is free software."), ("NOASSERTION", {}))

    def test_names_each_rule_that_a_document_breaks(self):
        good = self.write(self.folder / "tree")

        def check(expected, damage):
            document = copy.deepcopy(good)
            damage(document)
            found = list(sbom.problems(document))
            self.assertTrue(any(expected in problem for problem in found), f"{expected}: {found}")

        check("spdxVersion", lambda d: d.update(spdxVersion="SPDX-9"))
        check("documentNamespace", lambda d: d.update(documentNamespace="https://a#b"))
        check("created", lambda d: d["creationInfo"].update(created="today"))
        check("creators", lambda d: d["creationInfo"].update(creators=["me"]))
        check("has no downloadLocation", lambda d: d["packages"][0].pop("downloadLocation"))
        check("several elements", lambda d: d["packages"].append(d["packages"][0]))
        check("the SPDXID 'a b'", lambda d: d["packages"][0].update(SPDXID="a b"))
        check("has the licence", lambda d: d["packages"][0].update(licenseDeclared="a, b"))
        check("has no text", lambda d: d["packages"][0].update(licenseDeclared="LicenseRef-x"))
        check("is the licence of nothing",
              lambda d: d["hasExtractedLicensingInfos"].append({"licenseId": "LicenseRef-x"}))
        check("which is not there", lambda d: d["packages"].pop())
        check("is related to nothing", lambda d: d["relationships"].pop())
        check("describes nothing", lambda d: d.update(relationships=[]))


if __name__ == "__main__":
    unittest.main()
