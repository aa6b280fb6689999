"""Pages of the documentation that are made when the site is built: commands, Python, and what lies outside docs/.

mkdocs calls `on_files` and `on_page_markdown` (mkdocs.yml names this file as a hook).
"""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {
    "benchmarks.md": "benchmarks/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changes.md": "CHANGELOG.md",
}
PAGES = {path: name for name, path in ELSEWHERE.items()}


def on_config(config: Any) -> Any:
    """Put the pages of the API into the menu: `api/index.md` there stands for all of them."""
    api = _tool("api_pages")
    names = ["api/index.md", *(f"api/{name}.md" for names in api.SUBJECTS.values() for name in names)]
    for section in config.nav:
        for title, entries in section.items() if isinstance(section, dict) else ():
            section[title] = [{"Python API": names} if entry == "api/index.md" else entry for entry in entries]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what is made to the pages that mkdocs found."""
    from mkdocs.structure.files import File, InclusionLevel

    made = {name: (ROOT / path).read_text(encoding="utf-8") for name, path in ELSEWHERE.items()}
    made |= {"commands.md": _tool("command_page").text(), **_tool("api_pages").pages()}
    for name, text in made.items():
        inclusion = InclusionLevel.NOT_IN_NAV if name.startswith("source/") else InclusionLevel.INCLUDED
        files.append(File.generated(config, name, content=text, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the tables of the reproduction; where a page names another by its file, link to it by its title."""
    if page.file.src_uri.startswith("source/"):
        return markdown  # code is shown as it is
    if page.file.src_uri.startswith("reproduction/"):
        markdown = _tool("paper").with_tables(markdown)
    up = "../" * page.file.src_uri.count("/")

    def link(found: re.Match[str]) -> str:
        path = found[1]
        name = PAGES.get(path, path.removeprefix("docs/"))
        file = ROOT / path if path in PAGES else ROOT / "docs" / name
        title = re.search(r"^# (.+)", file.read_text(encoding="utf-8"), re.M) if file.is_file() else None
        return f"[{title[1]}]({up}{name})" if title else found[0]

    return re.sub(r"(?<!\[)`((?:docs/)?[\w/-]+\.md)`", link, markdown)


def _tool(name: str) -> Any:
    """The module beside this one; mkdocs loads this file alone, and puts the path back."""
    if str(ROOT / "tools") not in sys.path:
        sys.path.append(str(ROOT / "tools"))
    return importlib.import_module(name)
