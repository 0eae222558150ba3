"""A hook of mkdocs: what a page links to outside docs/ is published with the site, so that links are alike everywhere.

Pages link to files of the repository by relative paths, as a code host resolves them (`../CONTRIBUTING.md`). Each such
file appears below `repository/` in the site, Markdown as a page; links to files that do not exist stay as they are,
and `mkdocs build --strict` refuses them.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS, OUTSIDE = "docs/", "repository/"
LINK = re.compile(r"(?P<before>\]\()(?P<target>(?!\w+:)[^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the repository that pages link to, and those that these link to."""
    waiting = [DOCS + file.src_uri for file in files if file.is_documentation_page()]
    while waiting:
        for path in linked_from(waiting.pop()):
            if not path.startswith(DOCS) and files.get_file_from_path(in_site(path)) is None:
                level = InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, in_site(path), abs_src_path=str(ROOT / path), inclusion=level))
                waiting += [path] if path.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links as they are in the site."""
    here = in_repository(page.file.src_uri)
    from_here = posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        path = resolved(here, link["target"])
        return link["before"] + posixpath.relpath(in_site(path), from_here) if (ROOT / path).is_file() else link[0]

    return LINK.sub(moved, markdown)


def linked_from(path: str) -> Iterator[str]:
    """The files that a Markdown file of the repository links to."""
    for link in LINK.finditer((ROOT / path).read_text(encoding="utf-8")):
        to = resolved(path, link["target"])
        if (ROOT / to).is_file() and not to.startswith(".."):
            yield to


def resolved(path: str, target: str) -> str:
    """Where a link of the file at `path` leads, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def in_site(path: str) -> str:
    """A path of the repository as a source path of the site."""
    return path.removeprefix(DOCS) if path.startswith(DOCS) else OUTSIDE + path


def in_repository(src_uri: str) -> str:
    """The other way round."""
    return src_uri.removeprefix(OUTSIDE) if src_uri.startswith(OUTSIDE) else DOCS + src_uri
