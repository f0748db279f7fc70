"""Dead links and missing pictures of a built site: ``python docs/links.py [FOLDER]``; the build
calls it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

HERE = Path(__file__).parent


class Page(HTMLParser):
    """What a page links to or shows, and the names of its places."""

    def __init__(self, text: str):
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Take the attributes that matter."""
        given = dict(attrs)
        if "id" in given:
            self.places.add(given["id"])
        if tag in ("a", "link", "img", "script"):
            self.targets += [given[name] for name in ("href", "src") if given.get(name)]
        if tag == "img" and "alt" not in given:  # an empty one is right beside a title
            self.targets.append(f"missing-alt-of/{given.get('src')}")


def dead(folder: Path) -> Iterator[str]:
    """A line for each internal link that leads nowhere, and each picture that is missing or has no
    attribute alt.
    """
    pages = {
        path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))
    }
    pages = {
        path: page
        for path, page in pages.items()
        if "_static" not in path.relative_to(folder).parts
    }
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            address, place = urldefrag(target)
            if urlsplit(target).scheme or target.startswith("//"):
                continue
            file = (path.parent / unquote(urlsplit(address).path)).resolve() if address else path
            if not file.exists() or (
                place and file in pages and unquote(place) not in pages[file].places
            ):
                yield f"{path.relative_to(folder)}: {target}"


if __name__ == "__main__":
    found = list(dead(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "_build" / "html"))
    print("\n".join(found) or "no dead link")
    sys.exit(bool(found))
