"""The pages of this repository have no dead links, and scripts/site/check.py and formula.py find what they should."""

import pathlib
import sys
import unittest

SITE = pathlib.Path(__file__).resolve().parents[2] / "scripts/site"
sys.path.insert(0, str(SITE))
import check  # noqa: E402
import formula  # noqa: E402


class Check(unittest.TestCase):
    def test_pages_of_the_repository_are_right(self):
        if not (SITE.parents[1] / ".git").exists():
            self.skipTest("the sources are not a checkout")
        self.assertEqual(check.main(), 0)

    def test_dead_links_and_headings_are_found(self):
        pages = {"a.md": "# A b\n[x](docs/b.md#c-d) [y](gone.md) [z](docs/b.md#gone) [w](#a-b)\n",
                 "docs/b.md": "## C: `d`\n[up](../a.md) [folder](../docs)\n\n    [code](gone)\n"}
        self.assertEqual(list(check.dead_links(pages, set(pages))),
                         ["a.md:2: dead link: gone.md", "a.md:2: docs/b.md has no heading #gone"])

    def test_pages_outside_the_nav_are_found(self):
        found = list(check.outside_nav(["docs/a.md", "docs/b.md", "c.md"], ["docs/a.md", "docs/*.md"]))
        self.assertEqual([line.split(":")[0] for line in found], ["docs/a.md", "c.md"])


class Formula(unittest.TestCase):
    def test_equations_become_mathml(self):
        made = formula.to_mathml("y = max(x, 0) + negative_slope * x^2 / (1 + exp(-x))", {"negative_slope"})
        for part in ("<mfrac>", "<msup>", "<mtext>negative_slope</mtext>", "<mo>−</mo>"):
            self.assertIn(part, made)

    def test_subscripts_are_set_as_such(self):
        made = formula.to_mathml("PROD: y = prod_i x_i", {"x_i"})
        self.assertIn("<msub><mi>x</mi><mi>i</mi></msub>", made)

    def test_what_is_said_about_an_equation_stays_text(self):
        made = formula.to_mathml("y = x; the rest is <prose>", set())
        self.assertIn("<math ", made)
        self.assertIn('<p class="formula">the rest is &lt;prose&gt;</p>', made)

    def test_prose_is_not_taken_for_an_equation(self):
        for text in ("y = the sum of x", "y = [x_0, x_1, ...] along axis", "no output", "y = (x"):
            self.assertIsNone(formula.to_mathml(text, set()), text)


if __name__ == "__main__":
    unittest.main()
