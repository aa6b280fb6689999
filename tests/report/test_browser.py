"""The page in a real browser: silent, self-contained, readable at any width. `make test-browser` runs these."""

import re

import numpy as np
import pytest

import ggeur
from ggeur.federation.score_counts import count_scores
from ggeur.models.evaluating import evaluation
from ggeur.models.score_files import ScoreFile
from ggeur.report.evaluation_page import write_evaluation_page
from ggeur.report.model_page import write_model_page
from ggeur.report.page import write_report

pytestmark = pytest.mark.browser
SCREENS = [(1280, 900, "light"), (1280, 900, "dark"), (390, 844, "light"), (390, 844, "dark")]


@pytest.fixture(scope="module")
def report(table5_run, own_run, tmp_path_factory):
    return write_report([table5_run, own_run], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def opened(chromium, report):
    """opened(width, height, scheme): the page, with what it said and what it asked for in `said` and `asked`."""
    contexts = []

    def opened(width=1280, height=900, scheme="light", path=report):
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


def is_sound(page, path, width, least):
    """Silent, self-contained, no wider than the screen, and with at `least` so many figures, none of them tiny."""
    assert page.said == [] and page.asked == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('figure details').forEach(folded => folded.open = true)")
    figures = page.locator("figure svg")
    boxes = [figures.nth(i).bounding_box() for i in range(figures.count())]
    assert len(boxes) >= least and all(box and box["width"] > 250 and box["height"] > 80 for box in boxes)


@pytest.mark.parametrize("screen", SCREENS)
def test_silent_self_contained_and_nothing_cut_off(opened, report, screen):
    page = opened(*screen)
    is_sound(page, report, screen[0], 10)
    letters = page.evaluate("[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)")
    assert min(height for height in letters if height) >= 10


@pytest.fixture(scope="module")
def model_page(build_table, tmp_path_factory):
    """Of a model of eight sites, with all that such a page can hold."""
    folder = tmp_path_factory.mktemp("model") / "model"
    tables = {f"hospital-{k}": build_table((f"ward {k}",), k, test=np.arange(40) % 4 == 0) for k in range(8)}
    ggeur.fit(tables, parameters={"candidates": ["ncm", "lda"], "folds": 2}, out=folder, contributions=True)
    return write_model_page(folder)


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_of_a_model_too(opened, model_page, screen):
    page = opened(*screen, path=model_page)
    is_sound(page, model_page, screen[0], 4)


def test_tables_sort_both_ways_with_blanks_last(opened):
    page = opened()
    table = page.locator("#run0-table table")
    heading = table.locator("thead th").nth(5)
    for direction, sign in (("descending", -1), ("ascending", 1)):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == direction
        shown = table.locator("tbody tr td:nth-child(6)").evaluate_all("trials => trials.map(c => c.dataset.value)")
        values = [float(value) for value in shown if value]
        assert values == sorted(values, key=lambda v: sign * v) and shown[len(values) :] == [""]
    table.locator("thead button").first.click()
    names = table.locator("tbody th").evaluate_all("trials => trials.map(c => c.dataset.value)")
    assert names == page.evaluate("names => names.toSorted((a, b) => a.localeCompare(b))", names)


def test_figures_are_saved_as_svg_and_png(opened, tmp_path):
    page = opened(scheme="dark")
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with page.expect_download() as download:
            page.locator(f"figure [data-save={kind}]").first.click()
        download.value.save_as(tmp_path / f"figure.{kind}")
        content = (tmp_path / f"figure.{kind}").read_bytes()
        assert content.startswith(start) and download.value.suggested_filename.endswith(f".{kind}")
    ink = re.search(rb'style="[^"]*color: ([^;"]*)', (tmp_path / "figure.svg").read_bytes())
    assert ink and ink[1] in (b"rgb(34, 34, 34)", b"#222222")  # dark on white, whatever the page is
    assert page.said == []


def test_light_and_dark_by_system_and_by_button(opened):
    def brightness(page):
        return sum(map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]))

    light, dark = opened(scheme="light"), opened(scheme="dark")
    assert brightness(light) > 600 and brightness(dark) < 200
    light.locator("#theme").click()
    dark.locator("#theme").click()
    assert brightness(dark) > 600 and brightness(light) < 200


def test_it_prints(opened):
    assert opened(scheme="dark").pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_of_an_evaluation(opened, tmp_path, screen):
    rng = np.random.default_rng(0)
    files = []
    for name in ("leeds", "york", "a hospital with a long name"):
        p, y = rng.dirichlet(np.ones(12), 400), rng.integers(12, size=400)
        names = tuple(f"class {c}" for c in range(12))
        counts = count_scores(p, y, 10 if name == "york" else 0)
        files.append(ScoreFile(name, "hash", names, 10 if name == "york" else 0, "s", 0.2, "held out", counts))
    path = write_evaluation_page(evaluation(files), tmp_path / "evaluation.html")
    page = opened(*screen, path=path)
    is_sound(page, path, screen[0], 0)
    assert page.get_by_role("heading", name="Confusion matrix over all sites").count() == 1
