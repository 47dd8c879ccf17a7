"""A hook of MkDocs: the pages at the root of the tree are pages of the site, but for README, in whose place the site's home page stands; and a link to
a source file leads to a copy of it in the site.

Pages are written as they are read in a checkout: a link is a path from the page. Here such paths are turned into those of the site. A link
to what does not exist is left alone, and strict mode fails at it (mkdocs.yml). So is a link to a folder of docs that has no index.md. A
source file that no page links to is not in the site.
"""

import os.path
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

# Pages at the root, and where they stand in the site.
AT_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "weaknesses.md",
    "CHANGELOG.md": "changelog.md",
}
IN_TREE = {page: path for path, page in AT_ROOT.items()}
LANGUAGES = {".py": "python", ".cc": "cpp", ".h": "cpp", ".cu": "cpp", ".c": "c", ".txt": "cmake", ".json": "json", ".ipynb": "json"}
LINK = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?(\))")
CODE = re.compile(r"(^ {0,3}(?P<fence>```+|~~~+).*?^ {0,3}(?P=fence)[ \t]*$|(?P<ticks>`+)[^\n]*?(?P=ticks))", re.DOTALL | re.MULTILINE)


def outside_code(markdown, change):
    """The text with every part that is no code changed; links in code are no links."""
    done, at = [], 0
    for code in CODE.finditer(markdown):
        done += [change(markdown[at : code.start()]), code.group()]
        at = code.end()
    return "".join(done) + change(markdown[at:])


def path_of(page):
    """Where a page of the site stands in the tree."""
    return IN_TREE.get(page, "docs/" + page)


def target_of(page, link):
    """The path in the tree that a link of a page leads to; None of an address and of a place in the same page."""
    if not link or re.match(r"[a-z]+:|/", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(path_of(page)), link))


def place_of(root, target):
    """Where this path stands in the site; None where nothing is there."""
    if target == "README.md":
        return "index.md"
    file = Path(root) / target
    if target in AT_ROOT:
        return AT_ROOT[target]
    if target.startswith("../") or not file.exists():
        return None
    if target.startswith("docs/"):
        return target[5:] + ("/index.md" if file.is_dir() else "")
    return f"source/{target}/index.md" if file.is_dir() else f"source/{target}.md"


def source_page(root, target):
    """The page that shows a source file, or names what is in a folder."""
    file = Path(root) / target
    head = f"---\nsearch:\n  exclude: true\n---\n# {target}\n\n"
    if not file.is_dir():
        return head + f"``````{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text()}\n``````\n"
    inside = [one for one in sorted(file.iterdir()) if one.is_file()]
    return head + "\n".join(f"- [{one.name}]({one.name}.md)" for one in inside) + "\n"


def linked(root, pages):
    """The paths outside docs that pages link to, and what is in the folders among them."""
    found = set()
    for page, text in pages.items():
        def take(part, page=page):
            for link in LINK.finditer(part):
                target = target_of(page, link.group(2))
                if target and target not in (*AT_ROOT, "README.md") and not target.startswith(("docs/", "../")) and (Path(root) / target).exists():
                    found.add(target)
            return part

        outside_code(text, take)
    folders = [Path(root) / target for target in found if (Path(root) / target).is_dir()]
    return found | {str(one.relative_to(root)) for folder in folders for one in folder.iterdir() if one.is_file()}


def on_files(files, config):
    root = os.path.dirname(config.config_file_path)
    for path, page in AT_ROOT.items():
        files.append(File.generated(config, page, content=(Path(root) / path).read_text()))
    pages = {file.src_uri: file.content_string for file in files.documentation_pages()}
    for target in sorted(linked(root, pages)):
        files.append(File.generated(config, place_of(root, target), content=source_page(root, target)))
    return files


def on_page_markdown(markdown, page, config, files):
    here, root = page.file.src_uri, os.path.dirname(config.config_file_path)
    if here.startswith("source/"):
        return markdown

    def turned(link):
        target = target_of(here, link.group(2))
        place = place_of(root, target) if target else None
        if place is None:
            return link.group()
        return link.group(1) + posixpath.relpath(place, posixpath.dirname(here) or ".") + (link.group(3) or "") + link.group(4)

    return outside_code(markdown, lambda part: LINK.sub(turned, part))
