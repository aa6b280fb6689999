"""The documentation as a site: built without a warning, and whole without the network."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory, needs_docs):
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    return out


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']([^\"']+)", text)
        loaded += re.findall(r"<link\b(?![^>]*canonical)[^>]*\bhref=[\"']([^\"']+)", text)
        assert [url for url in loaded if re.match(r"(?:https?:)?//", url)] == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_link_and_anchor_is_there(site):
    ids = {p: set(re.findall(r"\bid=[\"']([^\"']+)", p.read_text(encoding="utf-8"))) for p in site.rglob("*.html")}
    for page in ids.keys() - {site / "404.html"}:  # whose links are from the root of a server
        for href in re.findall(r"<a\b[^>]*\bhref=[\"']([^\"']+)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", href):
                continue
            path, _, anchor = href.partition("#")
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{page.name}: {href}"
            assert not anchor or target not in ids or anchor in ids[target], f"{page.name}: {href}"


def test_a_page_is_called_in_the_menu_as_it_calls_itself(site):
    """The menu has no labels of its own, so that mkdocs takes each page's title; and every page has one."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    assert not re.findall(r":\s*\S+\.md", menu)
    for name in re.findall(r"- (\S+)\.md", menu):
        title = re.search(r"<h1[^>]*>(.*?)<a", (site / f"{name}.html").read_text(encoding="utf-8"), re.S)
        assert title and title[1].strip(), name


def test_search_and_reference_know_the_public_names(site):
    import ggeur

    index = (site / "search/search_index.json").read_text(encoding="utf-8")
    for name in ggeur.__all__:
        page = (site / "api" / f"{name}.html").read_text(encoding="utf-8")
        assert f"ggeur.{name}" in index and f"ggeur.{name}" in page, name


def test_the_page_of_a_class_has_its_attributes_and_its_source(site):
    import ggeur

    page = (site / "api/ClassStatistics.html").read_text(encoding="utf-8")
    shown = set(re.findall(r"<td><code>(\w+)</code></td>", page))
    assert {"count", "sum", "second", "center", "mean", "covariance", "within", "present"} <= shown
    line = inspect.getsourcelines(ggeur.ClassStatistics)[1]
    assert f'href="../source/stats.statistics.html#__codelineno-0-{line}"' in page


def test_docstrings_name_the_parameters_that_there_are(monkeypatch):
    import ggeur

    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    api, told = importlib.import_module("api_pages"), 0
    for name in ggeur.__all__:
        thing = getattr(ggeur, name)
        for part, one in [(name, thing), *(api.members(thing) if inspect.isclass(thing) else ())]:
            said = {key for key, _ in api.read(one).sections.get("Parameters", [])}
            if said and not inspect.ismodule(one):
                there = set(inspect.signature(one).parameters)
                assert said <= there, f"{name}.{part}: {said - there}"
                told += len(said)
    assert told > 130


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("deploy", "Deploy on real machines"),
        ("GPU", "FAQ"),
        ("secure aggregation", "Secure aggregation"),
        ("non-IID", "Glossary"),
        ("federated learning", "ggeur"),
    ],
)
def test_search_has_what_people_type(site, typed, title):
    docs = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    pages = {one["location"].partition("#")[0]: one["title"] for one in docs if "#" not in one["location"]}
    found = {
        pages[one["location"].partition("#")[0]]
        for one in docs
        if typed.lower() in (one["title"] + one["text"]).lower()
    }
    assert any(title in page for page in found), found
    assert not any(page.startswith("src/") for page in pages.values())  # sources are no results


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *args):
        pass


@pytest.fixture
def address(site):
    """The site on loopback: browsers load no search index from files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.browser
@pytest.mark.parametrize("screen", [(1280, 900), (390, 844)])
def test_search_finds_a_page_and_goes_there(chromium, address, screen):
    context = chromium.new_context(viewport={"width": screen[0], "height": screen[1]})
    page, errors, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}index.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= screen[0]
    if screen[0] < 800:
        page.locator("label.md-header__button[for=__search]").click()
    page.locator("input.md-search__input").click()
    page.keyboard.type("temperature", delay=20)
    page.locator(".md-search-result__link", has_text="Use, export and serve").first.click()
    page.locator("#how-far-probabilities-can-be-trusted").wait_for()
    assert "models.html" in page.url and errors == [] and all(url.startswith(address) for url in asked)
    context.close()
