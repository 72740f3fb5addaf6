#!/usr/bin/env python3
"""Makes the site: lessons and other pages, and the interfaces, in build/docs/html.

Usage: docs.py                 Doxygen with docs/Doxyfile; any warning or dead link is an error
       docs.py --filter FILE   prints a Markdown page as Doxygen has to see it

Pages are written for whoever reads them in the repository. So their links are paths, which this
turns into Doxygen's references; a link to what is no part of the site becomes plain text.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import check_links
from sources import ROOT, SUFFIXES, stages

OUTPUT = "build/docs"
MAIN_PAGE = "README.md"
STYLE = Path(os.environ.get("DOXYGEN_AWESOME_CSS", "/usr/share/doxygen-awesome-css"))
SHEETS = ("doxygen-awesome.css", "doxygen-awesome-sidebar-only.css",
          "doxygen-awesome-sidebar-only-darkmode-toggle.css")
PLAYER = ("player.html", "player.css", "player.js", "player_drawing.js", "player_ring.js",
          "player_streams.js", "recordings.js")  # of docs/; no page of Doxygen's
_FOLD = re.compile(r"\s*(?:</?details>|<summary>.*</summary>|\s)+")
SCRIPTS = ("doxygen-awesome-darkmode-toggle.js", "doxygen-awesome-fragment-copy-button.js")


def pages(root):
    """The Markdown files that are pages of the site, as paths from the root."""
    lessons = [f"{stage}/README.md" for stage in stages(root)]
    others = sorted(str(p.relative_to(root)) for p in (root / "docs").glob("*.md"))
    return [page for page in (MAIN_PAGE, *lessons, "simgpu/README.md", *others)
            if (root / page).is_file()]


def code_folders(root):
    return ["common", *stages(root), "simgpu/include"]


def label(page):
    """How other pages refer to this one."""
    if page == MAIN_PAGE:
        return "index"
    return "page_" + re.sub(r"\W+", "_", page.removesuffix(".md"))


# --- the filter -----------------------------------------------------------------------------------


def reference(root, page, text, target, is_image=False):
    """What stands for [text](target) on `page`."""
    if is_image:  # Doxygen looks for it in IMAGE_PATH
        return f"![{text}]({target.split('/')[-1]})"
    if check_links.is_external(target):
        return f"[{text}]({target})"
    path, _, fragment = target.partition("#")
    file = Path(os.path.normpath(root / page / ".." / path)) if path else root / page
    name = os.path.relpath(file, root)
    if name == "docs/player.html":
        return f"[{text}](player.html{'#' + fragment if fragment else ''})"
    if file.is_dir():
        name = f"{name}/README.md"
    plain = text.replace("`", "")  # Doxygen shows the marks in a reference
    if name in pages(root):
        return f"[{plain}](@ref {label(name)}{'_' + fragment if fragment else ''})"
    code = file.suffix in SUFFIXES - {".cpp"} and file.is_file()
    if code and any(name.startswith(f"{folder}/") for folder in code_folders(root)):
        return f"[{plain}](@ref {name})"
    return text


def filtered(root, page, markdown):
    """The page with labelled headings and with references in the place of links."""
    lines = []
    title = True
    for line, prose in check_links.lines_of(markdown):
        if prose and (heading := check_links.HEADING.match(line)):
            name = label(page) if title else f"{label(page)}_{check_links.slug(heading[2])}"
            if page != MAIN_PAGE or not title:
                line = f"{line} {{#{name}}}"
            title = False
        elif prose and _FOLD.fullmatch(line):  # Doxygen 1.9.4 would fold each paragraph by itself
            line = f"@htmlonly[block]{line.strip()}@endhtmlonly"
        elif prose:
            line = check_links.replace_links(
                line, lambda text, target, is_image: reference(root, page, text, target, is_image))
        lines.append(line)
    return "\n".join(lines) + "\n" + loop_diff(root, page)


def loop_diff(root, page):
    """At the end of a stage's page: how its loop differs from the last stage's, as they are now."""
    stage, _, name = page.partition("/")
    names = stages(root)
    if name != "README.md" or stage not in names[1:]:
        return ""
    before, after = (f"{folder}/train.cu" for folder in (names[names.index(stage) - 1], stage))
    old, new = (loop_of((root / path).read_text().split("\n")) for path in (before, after))
    diff = difflib.unified_diff(old, new, before, after, n=2, lineterm="")
    return "\n".join(["", f"## The loop beside the last stage's {{#{label(page)}_loop_diff}}", "",
                      "Made from the sources with this page, without what the files include.", "",
                      "```diff", *diff, "```", ""])


def loop_of(lines):
    return [line for line in lines if not line.startswith("#include")]


# --- the site -------------------------------------------------------------------------------------


def layout(root, text):
    """The layout with the lessons that exist."""
    tabs = []
    for stage in stages(root):
        page = f"{stage}/README.md"
        if (root / page).is_file():
            heading = re.search(r"^# +(.+)$", (root / page).read_text(), re.MULTILINE)
            title = re.sub(r"[^\w ,.:()+-]", "", heading[1] if heading else stage)
            tabs.append(f'<tab type="user" url="@ref {label(page)}" title="{title}"/>')
    return text.replace("LESSONS\n", "\n    ".join(tabs) + "\n")


def doxygen_version():
    text = subprocess.run(["doxygen", "--version"], capture_output=True, text=True).stdout
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def settings(root, output, styled):
    """docs/Doxyfile and what depends on the machine."""
    lines = [(root / "docs/Doxyfile").read_text(),
             f"OUTPUT_DIRECTORY = {output}",
             f"LAYOUT_FILE = {output}/layout.xml",
             f"USE_MDFILE_AS_MAINPAGE = {root / MAIN_PAGE}",  # a bare name fits every README.md
             "IMAGE_PATH = docs/figures " + " ".join(stages(root)),
             f'FILTER_PATTERNS = "*.md={sys.executable} tools/docs.py --filter"',
             "INPUT = " + " ".join([*pages(root), *code_folders(root)])]
    if styled:
        sheets = [str(STYLE / sheet) for sheet in SHEETS if (STYLE / sheet).is_file()]
        lines += [f"HTML_HEADER = {output}/header.html",
                  "HTML_EXTRA_STYLESHEET = " + " ".join([*sheets, "docs/site.css"]),
                  "HTML_EXTRA_FILES = " + " ".join(str(STYLE / s) for s in SCRIPTS)]
        if doxygen_version() >= (1, 9, 5):
            lines.append("HTML_COLORSTYLE = LIGHT")  # the style brings the dark one
    return "\n".join(lines) + "\n"


def header(text):
    """Doxygen's own header, of the version that is installed, with the style's scripts."""
    scripts = "".join(f'<script type="text/javascript" src="$relpath^{name}"></script>\n'
                      for name in SCRIPTS)
    start = ("<script type=\"text/javascript\">DoxygenAwesomeDarkModeToggle.init();"
             "DoxygenAwesomeFragmentCopyButton.init();</script>\n")
    return text.replace("</head>", scripts + start + "</head>")


def build(root):
    """Runs Doxygen; returns its exit status."""
    output = root / OUTPUT
    shutil.rmtree(output / "html", ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    (output / "layout.xml").write_text(layout(root, (root / "docs/DoxygenLayout.xml").read_text()))
    styled = (STYLE / SHEETS[0]).is_file()
    if styled:
        subprocess.run(["doxygen", "-w", "html", "header.html", "footer.html", "style.css"],
                       cwd=output, check=True, stdout=subprocess.DEVNULL)
        (output / "header.html").write_text(header((output / "header.html").read_text()))
    else:
        print(f"docs: no {STYLE} (Debian: doxygen-awesome-css), so it has Doxygen's plain style")
    (output / "settings.doxyfile").write_text(settings(root, output, styled))
    return subprocess.run(["doxygen", str(output / "settings.doxyfile")], cwd=root).returncode


def mended(html):
    """The page without Doxygen 1.9.4's slips.

    It links to the section of private nested classes, which it does not make, and shows the mark
    before | in the code of a table.
    """
    if 'name="nested-classes"' not in html:
        html = re.sub(r'<a href="#nested-classes">[^<]*</a>( &#124;)?', "", html)
    return re.sub(r"<code>[^<]*</code>", lambda code: code[0].replace("\\|", "|"), html)


def mend(folder):
    for path in folder.glob("*.html"):
        text = path.read_text()
        if (better := mended(text)) != text:
            path.write_text(better)


def player(root, name, text):
    """A file of the player as the site has it: with links to the site's pages."""
    if not name.endswith(".html"):
        return text

    def link(match):
        page = os.path.relpath(os.path.normpath(root / "docs" / match[1]), root)
        return f'href="{label(page)}.html"' if page in pages(root) else match[0]

    return re.sub(r'href="([^"#]+\.md)"', link, text)


def add_player(root, folder):
    for name in PLAYER:
        text = (root / "docs" / name).read_text(encoding="utf-8")
        (folder / name).write_text(player(root, name, text), encoding="utf-8")


def main(arguments):
    if arguments[:1] == ["--filter"]:
        path = Path(arguments[1]).resolve()
        sys.stdout.write(filtered(ROOT, os.path.relpath(path, ROOT), path.read_text()))
        return 0
    if shutil.which("doxygen") is None:
        print("docs: no doxygen here (Debian: doxygen, doxygen-awesome-css)", file=sys.stderr)
        return 1
    if build(ROOT) != 0:
        print("docs: Doxygen has warned, see above", file=sys.stderr)
        return 1
    html = ROOT / OUTPUT / "html"
    mend(html)
    add_player(ROOT, html)
    count, dead = check_links.dead_in_html(html)
    for message in dead:
        print(message, file=sys.stderr)
    print(f"docs: {count} links between pages, {len(dead)} dead")
    print(f"docs: open {OUTPUT}/html/index.html")
    return 1 if dead or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
