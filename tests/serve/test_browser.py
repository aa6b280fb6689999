"""The page in a real browser: a photograph is dropped, the answer seen. `make test-browser` runs these."""

import numpy as np
import pytest
from PIL import Image

pytestmark = [pytest.mark.browser, pytest.mark.needs("serve")]
SCREENS = [(1280, 900, "light"), (390, 844, "dark")]


@pytest.fixture
def photos(tmp_path):
    for i in range(3):
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (60, 90, 3), np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "none.png").write_bytes(b"no picture")
    return [str(tmp_path / name) for name in ("0.png", "1.png", "none.png", "2.png")]


@pytest.mark.parametrize("screen", SCREENS)
def test_photographs_are_answered_and_nothing_is_asked_elsewhere(chromium, running, photos, screen):
    context = chromium.new_context(viewport={"width": screen[0], "height": screen[1]}, color_scheme=screen[2])
    page, errors, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(running.address)
    page.locator("#about", has_text="3 classes").wait_for()
    page.set_input_files("#file", photos)
    page.locator("article:not(.waiting)").nth(3).wait_for()
    answers = page.locator("article:not(.failed) h2").all_text_contents()
    assert len(answers) == 3 and all(text.split(",")[0] in ("ant", "bee", "cat") for text in answers)
    assert "not an image" in page.locator("article.failed .why").text_content()
    assert page.locator("article.failed img").is_hidden(), "no sign of a broken image"
    assert "measured" in page.locator("#accuracy").text_content()
    assert page.locator("article:not(.failed) li").count() == 9
    assert page.evaluate("document.documentElement.scrollWidth") <= screen[0]
    certain = """e => { const [text, before] = [e.textContent, e.offsetHeight]; e.textContent = "100.0 %";
      const fits = e.offsetHeight === before && e.scrollWidth <= e.clientWidth; e.textContent = text; return fits; }"""
    assert page.locator("article:not(.failed) li b").first.evaluate(certain), "on one line, as any other"
    page.locator("#least").evaluate("e => { e.value = 99; e.dispatchEvent(new Event('input')); }")
    page.locator("#shown", has_text="99 %").wait_for()
    sure = [text != "Not sure" for text in page.locator("article:not(.failed) h2").all_text_contents()]
    shown = page.locator("article:not(.failed) li:first-child b").all_text_contents()
    assert sure == [float(text.split()[0]) >= 99 for text in shown]
    assert errors == [] and all(url.startswith((running.address, "blob:", "data:")) for url in asked)
    context.close()
