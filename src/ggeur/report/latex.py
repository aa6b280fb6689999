"""A table for a paper, in LaTeX."""

from ggeur.report.tables import Comparison, Number


def to_latex(table: Comparison) -> str:
    """The table for a paper: booktabs, mean and deviation over seeds, the paper's figure in brackets, best in bold.

    Each setting of a sweep is a block of its own, and best is within it.
    """
    head = " & ".join(_tex(c) for c in table.headings or table.columns)
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        "\\toprule",
        f"Method & {head} \\\\",
        "\\midrule",
    ]
    for number, (block, own) in enumerate(table.blocks):
        if block:
            title = f"\\multicolumn{{{len(table.columns) + 1}}}{{l}}{{\\emph{{{_tex(block)}}}}} \\\\"
            lines += ["\\midrule", title] if number else [title]
        for line in own:
            cells = [_latex_number(n, table.leads(line, i)) for i, n in enumerate(line.numbers)]
            lines.append(f"{_tex(line.name)} & {' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _latex_number(number: Number, best: bool) -> str:
    printed = f" ({number.published:.2f})" if number.published is not None else ""
    if number.mean is None:
        return f"--{printed}"
    mean = f"{number.mean:.2f}"
    spread = f" $\\pm$ {number.spread:.2f}" if number.spread is not None else ""
    return (f"\\textbf{{{mean}}}" if best else mean) + spread + printed


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "β": r"$\beta$"}
    special |= {c: f"\\{c}" for c in "&%$#_{}"}
    return "".join(special.get(c, c) for c in text)
