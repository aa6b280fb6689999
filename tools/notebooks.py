"""The examples as notebooks: examples/NAME.py, whose cells begin with `# %%`, becomes examples/NAME.ipynb.

python tools/notebooks.py
"""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def notebook(script: str) -> nbformat.NotebookNode:
    """The notebook of a `script`; the same script gives the same bytes."""
    cells = []
    for number, part in enumerate(script.split("# %%")[1:]):
        kind, _, body = part.partition("\n")
        if kind.strip() == "[markdown]":
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            cells.append(new_markdown_cell(text, id=f"cell-{number}"))
        else:
            cells.append(new_code_cell(body.strip(), id=f"cell-{number}"))
    return new_notebook(cells=cells, metadata=KERNEL)


if __name__ == "__main__":
    for path in sorted(EXAMPLES.glob("*.py")):
        nbformat.write(notebook(path.read_text(encoding="utf-8")), path.with_suffix(".ipynb"))
