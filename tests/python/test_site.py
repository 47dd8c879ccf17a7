"""The pages as a site: whoever breaks a link, an anchor or the menu is told, and source files that pages link to are in the site.

A copy of the pages is built, with one thing wrong in it. The tree's own pages are built by .ci/run (scripts/site).
"""

import os
import re
import subprocess

import pytest

from jobs import ROOT
from sharing import turn

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def mkdocs():
    with turn(ROOT / ".venv-site"):
        subprocess.run([ROOT / "scripts/setup", "site"], check=True, timeout=1200)
    return ROOT / ".venv-site/bin/mkdocs"


@pytest.fixture
def pages(tmp_path):
    """Five pages at the root, one of docs, a source file and a folder."""
    tree = tmp_path / "tree"
    for name, text in {
        "README.md": "# Not a page of the site\n",
        "docs/index.md": "# Home\n\n[a page](torch.md#part), [code](../src/x.h), [all](../examples), [the next](../CHANGELOG.md)."
        "\n\n```\n[no link](in/code)\n```\n",
        "ARCHITECTURE.md": "# A\n", "CONTRIBUTING.md": "# C\n", "SECURITY.md": "# S\n", "CHANGELOG.md": "# L\n",
        "docs/torch.md": "# A page\n\n## Part\n\n[back](../README.md), [code](../src/x.h) and `[no link](here)`\n",
        "src/x.h": "// [a comment](that/links/to/nothing)\nint x;\n",
        "examples/one.py": "one = 1\n", "docs/part/one.txt": "1\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "scripts").mkdir()
    (tree / "scripts/site_links.py").symlink_to(ROOT / "scripts/site_links.py")
    settings = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[0]
    menu = "".join(f"  - {page}.md\n" for page in ("index", "architecture", "contributing", "weaknesses", "changelog", "torch"))
    (tree / "mkdocs.yml").write_text(f"{settings}\nnav:\n{menu}")
    return tree


def built(mkdocs, tree):
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [mkdocs, "build", "--strict", "-f", tree / "mkdocs.yml"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


def test_links_lead_to_pages_and_to_source_files(mkdocs, pages):
    done = built(mkdocs, pages)
    assert done.returncode == 0, done.stderr
    home = (pages / "build/site/index.html").read_text()
    links = set(re.findall(r'href="([^"]+)"', home))
    assert {"torch.html#part", "changelog.html", "source/src/x.h.html", "source/examples/index.html"} <= links
    assert "[no link](in/code)" in home and "Not a page" not in home
    assert 'href="source/src/x.h.html"' in (pages / "build/site/torch.html").read_text()
    assert 'href="one.py.html"' in (pages / "build/site/source/examples/index.html").read_text()


@pytest.mark.parametrize("page, wrong, named", [
    ("docs/torch.md", "[x](cli.md)", "cli.md"),
    ("docs/torch.md", "[x](../src/y.h)", "../src/y.h"),
    ("docs/torch.md", "[x](../README.md#nowhere)", "#nowhere"),
    ("docs/torch.md", "[x](#nowhere)", "#nowhere"),
    ("docs/torch.md", "![x](picture.svg)", "picture.svg"),
    ("SECURITY.md", "[x](docs/cli.md)", "docs/cli.md"),
    ("CHANGELOG.md", "[x](docs/torch.md#nowhere)", "#nowhere"),
    ("SECURITY.md", "[x](docs/part)", "index.md"),
])
def test_a_broken_link_breaks_the_build(mkdocs, pages, page, wrong, named):
    with open(pages / page, "a") as file:
        file.write(f"\n{wrong}\n")
    done = built(mkdocs, pages)
    assert done.returncode != 0
    assert any(named in line for line in done.stderr.splitlines() if line.startswith("WARNING")), done.stderr


def test_a_page_that_no_menu_has_breaks_the_build(mkdocs, pages):
    (pages / "docs/cli.md").write_text("# Forgotten\n")
    done = built(mkdocs, pages)
    assert done.returncode != 0 and "cli.md" in done.stderr
