"""Links of the pages: as the site must have them, and dead ones."""

import tempfile
import unittest
from pathlib import Path

import check_links
import docs


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("README.md", "# The course\n")
        self.write("LICENSE", "")
        self.write("docs/hardware.md", "# Hardware\n\n## What ran\n\n## What ran\n")
        self.write("01_single_gpu/README.md", "# Stage 01: one GPU\n")
        self.write("01_single_gpu/train.cu", "")
        self.write("01_single_gpu/main.cpp", "")
        self.write("simgpu/README.md", "# simgpu\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self.root / path


class Filter(Tree):
    def filtered(self, text, page="README.md"):
        return docs.filtered(self.root, page, text)

    def test_pages(self):
        self.assertEqual(docs.pages(self.root), ["README.md", "01_single_gpu/README.md",
                                                 "simgpu/README.md", "docs/hardware.md"])

    def test_links_become_references(self):
        for page, link, reference in (
            ("README.md", "docs/hardware.md", "@ref page_docs_hardware"),
            ("README.md", "docs/hardware.md#what-ran", "@ref page_docs_hardware_what-ran"),
            ("README.md", "01_single_gpu/", "@ref page_01_single_gpu_README"),
            ("docs/hardware.md", "../README.md", "@ref index"),
            ("docs/hardware.md", "#what-ran", "@ref page_docs_hardware_what-ran"),
            ("01_single_gpu/README.md", "train.cu", "@ref 01_single_gpu/train.cu"),
            ("README.md", "https://example.org/a_b", "https://example.org/a_b"),
        ):
            with self.subTest(link):
                code = "`c`" if link.startswith("https") else "c"
                self.assertEqual(self.filtered(f"a [b `c`]({link}).", page),
                                 f"a [b {code}]({reference}).\n")

    def test_what_is_not_on_the_site_is_plain_text(self):
        for link in ("LICENSE", "01_single_gpu/main.cpp", "02_grad_accum/README.md"):
            with self.subTest(link):
                self.assertEqual(self.filtered(f"a [b]({link})."), "a b.\n")

    def test_an_image_is_found_by_its_name(self):
        self.assertEqual(self.filtered("![a b](docs/figures/loss.png)"), "![a b](loss.png)\n")

    def test_code_stays(self):
        text = "`[a](LICENSE)`\n\n```cpp\n# [a](LICENSE)\n```\n"
        self.assertEqual(self.filtered(text), text)

    def test_what_unfolds_is_left_to_the_browser(self):
        self.assertEqual(self.filtered("<details><summary>A</summary>\n\nb\n\n</details>\n"),
                         "@htmlonly[block]<details><summary>A</summary>@endhtmlonly\n\nb\n\n"
                         "@htmlonly[block]</details>@endhtmlonly\n")

    def test_a_stages_page_ends_with_the_diff_of_its_loop(self):
        self.write("01_single_gpu/train.cu", '#include "a.hpp"\nsame();\nold();\n')
        self.write("02_grad_accum/train.cu", '#include "b.hpp"\nsame();\nnew();\n')
        page = self.filtered("# Stage 02\n", "02_grad_accum/README.md")
        self.assertIn("\n same();\n-old();\n+new();\n", page)
        self.assertNotIn("#include", page)
        self.assertNotIn("old()", self.filtered("# Stage 01\n", "01_single_gpu/README.md"))

    def test_headings_get_labels(self):
        self.assertEqual(self.filtered("# Hardware\n## What *ran*?\n", "docs/hardware.md"),
                         "# Hardware {#page_docs_hardware}\n"
                         "## What *ran*? {#page_docs_hardware_what-ran}\n")
        self.assertEqual(self.filtered("# The course\n## Use\n"),
                         "# The course\n## Use {#index_use}\n")

    def test_the_layout_has_the_lessons(self):
        text = docs.layout(self.root, "<navindex>\n    LESSONS\n</navindex>\n")
        tab = 'url="@ref page_01_single_gpu_README" title="Stage 01: one GPU"/>'
        self.assertIn(tab + "\n</nav", text)


class DeadLinks(Tree):
    def dead(self, text):
        page = self.write("docs/page.md", text)
        return check_links.dead_in_markdown(self.root, [page])

    def test_sound_links(self):
        text = ("# A\n[a](hardware.md) [b](../01_single_gpu/) [c](hardware.md#what-ran-1) [d](#a)\n"
                "[e](https://example.org/none) `[f](none.md)` ![g](../LICENSE \"title\")\n"
                "```\n[h](none.md)\n```\n")
        self.assertEqual(self.dead(text), (5, []))

    def test_dead_links(self):
        for link, words in (("none.md", "docs/page.md:2: none.md is not there"),
                            ("hardware.md#none", "no such heading"), ("#none", "no such heading"),
                            ("../01_single_gpu/none.cu", "is not there")):
            with self.subTest(link):
                count, dead = self.dead(f"# A\n[a]({link})\n")
                self.assertEqual(count, 1)
                self.assertIn(words, dead[0])

    def test_the_site(self):
        self.write("html/a.html", '<a href="b.html#x">1</a><a href="#top">2</a>'
                                  '<img src="c.png"/><a href="https://example.org">3</a>')
        self.write("html/b.html", '<a name="x"></a><a href="a.html">4</a>')
        count, dead = check_links.dead_in_html(self.root / "html")
        self.assertEqual(count, 4)
        self.assertEqual(dead, ["a.html: #top: no such place", "a.html: c.png is not there"])

    def test_doxygens_slips(self):
        link = '<a href="#nested-classes">Classes</a> &#124;'
        self.assertEqual(docs.mended(link + "rest"), "rest")
        section = link + '<a name="nested-classes"></a>'
        self.assertEqual(docs.mended(section), section)
        self.assertEqual(docs.mended("a\\|b <code>c\\|d</code>"), "a\\|b <code>c|d</code>")


if __name__ == "__main__":
    unittest.main()
