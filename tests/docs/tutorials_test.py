"""scripts/tutorials.py executes what a page shows, and says where its output differs."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/tutorials.py"


class Tutorials(unittest.TestCase):
    def run_page(self, text, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            page.write_text(text)
            return subprocess.run([sys.executable, SCRIPT, folder, page, *arguments],
                                  capture_output=True, text=True)

    def test_output_as_on_the_page_passes(self):
        done = self.run_page("# T\n\n    $ echo 'loss = 0.5012'; echo gone; echo gone; printf 'end in 3 s'\n"
                             "    loss = 0.4999\n    ...\n    end in ...\n\n```console\n$ echo b >f\n$ cat f\nb\n```\n"
                             "\n    not a command\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 commands wrote what the pages say", done.stdout)

    def test_other_output_fails_with_its_line(self):
        for shown, written in (("found 12", "found 13"), ("loss = 0.5", "loss = 0.9"), ("a", ""), ("a", "a\nb")):
            done = self.run_page(f"# T\n\n    $ printf '%s\\n' '{written}'\n    {shown}\n")
            self.assertEqual(done.returncode, 1, shown)
            self.assertIn("page.md:3:", done.stderr)

    def test_a_command_in_the_background_runs_until_its_section_ends(self):
        done = self.run_page("# T\n\n    $ touch up; echo ready; tail -f /dev/null &\n    ready\n    $ cat up\n")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_only_the_named_section_runs(self):
        page = "# T\n\n    $ false; echo no\n\n## Two\n\n    $ echo yes\n    yes\n"
        self.assertEqual(self.run_page(page, "--section=Two").returncode, 0)
        self.assertEqual(self.run_page(page, "--section=Three").returncode, 1)


if __name__ == "__main__":
    unittest.main()
