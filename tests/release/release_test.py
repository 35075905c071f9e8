"""Tests of scripts/release/release.sh --source-only in a repository of a few files."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FILES = ["CMakeLists.txt", "CHANGELOG.md", "LICENSE", ".gitignore", "pyproject.toml",
         "python/crema-caffe/pyproject.toml", "docs/packages.md", "docs/plugins.md", "docs/versions.md",
         "include/crema/crema.h", "include/crema/deploy.h", "include/crema/plugin.h",
         "src/inference/crema_file.h", "scripts/lint/version.sh", "scripts/release/release.sh",
         "scripts/release/sbom.py"]

# Stands in for what compiles. Files of an earlier version are in the folders, too.
MAKEFILE = """
wheel:
	mkdir -p build/wheels && python3 -c "import zipfile; [zipfile.ZipFile('build/wheels/' + n, 'w') for n in \\
	  ('crema-{0}-cp312-abi3-any.whl', 'crema-0.0.1-cp312-abi3-any.whl', 'crema_caffe-{0}-py3-none-any.whl')]"
deb:
	mkdir -p build/deb build/root/DEBIAN
	printf 'Package: crema\\nVersion: {0}\\nArchitecture: all\\nMaintainer: A <a@b>\\nDescription: x\\n' >build/root/DEBIAN/control
	dpkg-deb -b build/root build/deb/crema_{0}_all.deb
	cp build/deb/crema_{0}_all.deb build/deb/crema_0.0.1_all.deb
"""


class Release(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name, "crema")
        for name in FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.root / name)
        self.git("init", "-q")
        self.commit()

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments], cwd=self.root, check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Change")

    def release(self, *arguments):
        return subprocess.run(["scripts/release/release.sh", *arguments], cwd=self.root, text=True,
                              capture_output=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def refused(self, reason, *arguments):
        done = self.release(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertFalse((self.root / "dist").exists())

    def replace(self, name, old, new):
        text = (self.root / name).read_text()
        self.assertIn(old, text)
        (self.root / name).write_text(text.replace(old, new))
        self.commit()

    def version(self):
        text = (self.root / "CMakeLists.txt").read_text()
        return text.partition("project(Crema VERSION ")[2].split()[0]

    def test_sources_are_the_files_of_the_commit_and_the_same_bytes_each_time(self):
        sums = []
        for _ in range(2):
            done = self.release("--source-only")
            self.assertEqual(done.returncode, 0, done.stderr)
            sums.append((self.root / "dist/SHA256SUMS").read_text())
        self.assertEqual(sums[0], sums[1])
        name = f"crema-{self.version()}"
        self.assertEqual([line.split()[1] for line in sums[0].splitlines()],
                         [f"{name}.spdx.json", f"{name}.tar.gz"])
        archive = self.root / f"dist/{name}.tar.gz"
        self.assertIn(hashlib.sha256(archive.read_bytes()).hexdigest(), sums[0])
        with tarfile.open(archive) as tar:
            self.assertEqual(sorted(m.name for m in tar if m.isfile()), sorted(f"{name}/{file}" for file in FILES))

    @unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("make"), "needs make and dpkg-deb")
    def test_packages_of_this_version_come_with_checksums_and_contents(self):
        version = self.version()
        (self.root / "Makefile").write_text(MAKEFILE.format(version))
        text = (self.root / "CHANGELOG.md").read_text()
        (self.root / "CHANGELOG.md").write_text(text.replace(f"[{version}] - unreleased", f"[{version}] - 2001-02-03"))
        self.commit()
        done = self.release()
        self.assertEqual(done.returncode, 0, done.stderr)
        artefacts = [f"crema-{version}-cp312-abi3-any.whl", f"crema-{version}.tar.gz", f"crema_{version}_all.deb",
                     f"crema_caffe-{version}-py3-none-any.whl"]
        sums = (self.root / "dist/SHA256SUMS").read_text()
        self.assertEqual({line.split()[1] for line in sums.splitlines()}, {f"crema-{version}.spdx.json", *artefacts})
        document = json.loads((self.root / f"dist/crema-{version}.spdx.json").read_text())
        self.assertEqual({p["packageFileName"] for p in document["packages"] if "packageFileName" in p}, set(artefacts))

    def test_sources_that_lack_a_file_of_the_commit_are_no_release(self):
        (self.root / ".gitattributes").write_text("LICENSE export-ignore\n")
        self.commit()
        self.refused("has other files than the commit", "--source-only")

    def test_refuses_a_tree_with_changes(self):
        (self.root / "new.txt").write_text("")
        self.refused("new.txt", "--source-only")

    def test_refuses_a_version_without_an_entry_in_the_changelog(self):
        self.replace("CHANGELOG.md", f"## [{self.version()}] - ", "## [9.9.9] - ")
        self.refused("disagree about the version", "--source-only")

    def test_refuses_a_file_with_another_version(self):
        self.replace("pyproject.toml", f'version = "{self.version()}"', 'version = "9.9.9"')
        self.refused("disagree about the version", "--source-only")

    def test_refuses_the_tag_of_another_version(self):
        self.git("tag", "v9.9.9")
        self.refused("v9.9.9", "--source-only")

    def test_refuses_packages_without_a_date_in_the_changelog(self):
        entry = next(line for line in (self.root / "CHANGELOG.md").read_text().splitlines()
                     if line.startswith(f"## [{self.version()}]"))
        if not entry.endswith("unreleased"):
            self.replace("CHANGELOG.md", entry, f"## [{self.version()}] - unreleased")
        self.refused("no date")

    def test_refuses_an_unknown_argument(self):
        self.refused("--all", "--all")


if __name__ == "__main__":
    unittest.main()
