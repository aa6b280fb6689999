"""Make the tutorial of the engineer's notebook: its cells, what they print and the figures they draw.

    python tools/tutorial.py

examples/engineer.py becomes docs/tutorials/first-classifier.md, with figures in docs/figures.
"""

import contextlib
import io
import re
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "engineer.py"
PAGE, FIGURES = ROOT / "docs" / "tutorials" / "first-classifier.md", ROOT / "docs" / "figures"
TITLE = "# First classifier"
BEFORE = """Four sites, images in folders, one classifier: in five minutes, on built-in data, without a download. Run
it yourself: `jupyter notebook examples/engineer.ipynb`, or `python examples/engineer.py`.
"""
AFTER = """## Next

- The folder `model` has a page, `report.html`, with accuracy per site and class. `ggeur serve` shows the model.
- `builtin` is for pictures of shapes. For photographs [get an encoder](../howto/encoder.md).
- With your own folders, on the command line: [classify your own photographs](../howto/photographs.md).
- Sites on different machines: [three hospitals, step by step](three-hospitals.md).
- What the sites gave away: [choose protection](../privacy.md).
"""


def cells() -> list[tuple[str, str]]:
    """Return the cells of the script: ("markdown" or "code", text)."""
    found = []
    for part in SCRIPT.read_text(encoding="utf-8").split("# %%")[1:]:
        kind, _, body = part.partition("\n")
        if kind.strip() == "[markdown]":
            words = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            found.append(("markdown", re.sub(r"^# .*\n", "", words)))
        else:
            found.append(("code", body.strip()))
    return found


def page() -> str:
    """Run the cells and return the page; figures are written beside it."""
    space: dict[str, Any] = {"__name__": "__main__"}
    text, drawn = [TITLE, BEFORE], 0
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "ggeur"
    for kind, body in cells():
        if kind == "markdown":
            text.append(body + "\n")
            continue
        space.pop("figure", None)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(body, str(SCRIPT), "exec"), space)
        text.append(f"```py\n{body}\n```\n")
        if out.getvalue():
            text.append(f"It prints:\n\n```text\n{_wrapped(out.getvalue())}```\n")
        if "figure" in space:
            drawn += 1
            pictures = any(ax.images for ax in space["figure"].axes)
            name = f"first-classifier-{drawn}.{'png' if pictures else 'svg'}"
            about = {"Software": None} if pictures else {"Date": None}
            space["figure"].savefig(FIGURES / name, dpi=110, bbox_inches="tight", metadata=about)
            plt.close(space["figure"])
            text.append(f"![What the cell draws](../figures/{name})\n")
    return "\n".join([*text, AFTER])


def _wrapped(printed: str, width: int = 72) -> str:
    import textwrap

    return "".join("\n".join(textwrap.wrap(line, width)) + "\n" for line in printed.splitlines())


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is made of {SCRIPT.relative_to(ROOT)}")
