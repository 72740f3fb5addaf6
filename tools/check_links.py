#!/usr/bin/env python3
"""Checks that no link between the project's own files is dead: in Markdown, and in the made site.

Links to other sites are not followed.
"""

import html.parser
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

from sources import ROOT

HEADING = re.compile(r"(#{1,6}) +(.*?)(?: +#+)?$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_CODE = re.compile(r"`+[^`]*`+")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)(?: +\"[^\"]*\")?\)")


def is_external(target):
    return bool(re.match(r"[a-z][a-z0-9+.-]*:|//", target))


def lines_of(markdown):
    """(line, whether it is prose and not code) for each line."""
    fence = None
    for line in markdown.rstrip("\n").split("\n"):
        match = _FENCE.match(line)
        if match and fence is None:
            fence = match[1]
            yield line, False
        elif match and match[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = None
            yield line, False
        else:
            yield line, fence is None


def replace_links(line, new):
    """The line with each link or image as new(text, target, is_image); `code` has none."""
    spans = []  # code in a line, hidden from the pattern

    def hide(match):
        spans.append(match[0])
        return f"\0{len(spans) - 1}\0"

    def show(text):
        return re.sub(r"\0(\d+)\0", lambda match: spans[int(match[1])], text)

    hidden = _CODE.sub(hide, line)
    return show(_LINK.sub(lambda m: new(show(m[2]), show(m[3]), bool(m[1])), hidden))


def slug(heading):
    """What a heading is called in a link, as GitHub does it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(markdown):
    """The names that a link into the page may use."""
    found = set()
    for line, prose in lines_of(markdown):
        if prose and (match := HEADING.match(line)):
            name, count = slug(match[2]), 1
            while name in found:
                name, count = f"{slug(match[2])}-{count}", count + 1
            found.add(name)
    return found


def dead_in_markdown(root, pages):
    """(number of links, messages) for the given pages."""
    count, dead = 0, []
    for page in pages:
        for number, (line, prose) in enumerate(lines_of(page.read_text()), 1):
            targets = []
            if prose:
                replace_links(line, lambda _, target, __: targets.append(target) or "")
            for target in targets:
                if is_external(target):
                    continue
                count += 1
                path, _, fragment = unquote(target).partition("#")
                file = page.parent / path if path else page
                where = f"{page.relative_to(root)}:{number}"
                if not file.exists():
                    dead.append(f"{where}: {target} is not there")
                elif (fragment and file.suffix == ".md"
                      and fragment not in anchors(file.read_text())):
                    dead.append(f"{where}: {target}: no such heading")
    return count, dead


class _Page(html.parser.HTMLParser):
    """Collects what a page links to and what it can be linked at."""

    def __init__(self):
        super().__init__()
        self.targets, self.names = set(), set()

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.targets.add(value)
            if name == "id" or (tag == "a" and name == "name"):
                self.names.add(value)


def dead_in_html(folder):
    """(number of links, messages) for all pages below a folder."""
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        page = _Page()
        page.feed(path.read_text(errors="replace"))
        pages[path.resolve()] = page
    count, dead = 0, []
    for path, page in pages.items():
        for target in sorted(page.targets):
            if is_external(target) or target in ("#", ""):
                continue
            count += 1
            name, _, fragment = unquote(target).partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.is_file():
                dead.append(f"{path.name}: {target} is not there")
            elif fragment and file in pages and fragment not in pages[file].names:
                dead.append(f"{path.name}: {target}: no such place")
    return count, dead


def markdown_files(root):
    """All pages that git tracks or would track; without git, all outside of build/ and runs/."""
    done = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "*.md"],
                          capture_output=True, text=True)
    if done.returncode == 0:
        return sorted(root / n for n in done.stdout.splitlines() if (root / n).is_file())
    return sorted(p for p in root.rglob("*.md")
                  if p.relative_to(root).parts[0] not in ("build", "runs"))


def main():
    pages = markdown_files(ROOT)
    count, dead = dead_in_markdown(ROOT, pages)
    for message in dead:
        print(message, file=sys.stderr)
    print(f"links: {count} in {len(pages)} pages, {len(dead)} dead")
    return 1 if dead or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
