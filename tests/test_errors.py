"""Every error of ours has a code, and errors.tsv keeps every sentence by its code.

After a change of sentences `python tests/test_errors.py` writes the file anew; read the difference before you commit.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ggeur import GgeurError

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "errors.tsv"
CODE = re.compile(r"[a-z]+(-[a-z0-9]+){1,4}")


def kinds(trees: list[ast.Module]) -> set[str]:
    """GgeurError, every class of the package that is one, and `error_type`, which a function is given to raise."""
    found, more = {"error_type"}, {"GgeurError"}
    while more:
        found |= more
        classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        more = {c.name for c in classes if {ast.unparse(base) for base in c.bases} & found} - found
    return found


def template(node: ast.expr) -> str:
    """The sentence, with what is put into it in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            template(v) if isinstance(v, ast.Constant) else f"{{{ast.unparse(v.value)}}}" for v in node.values
        )
    if isinstance(node, ast.BinOp):
        return template(node.left) + template(node.right)
    return f"{{{ast.unparse(node)}}}"


def raised() -> Iterator[tuple[str, str]]:
    """(code, sentence) of every error that the package makes; the code in braces where it is another error's."""
    trees = [ast.parse(path.read_bytes()) for path in sorted((ROOT / "src").rglob("*.py"))]
    errors = kinds(trees)
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id in errors and call.args:
            (code,) = [k.value for k in call.keywords if k.arg == "code"] or [ast.Constant("")]
            yield template(code), " ".join(template(call.args[0]).split())


def lines() -> list[str]:
    return sorted({f"{code}\t{sentence}" for code, sentence in raised()})


def test_every_error_has_a_code():
    bare = [sentence for code, sentence in raised() if not CODE.fullmatch(code) and not code.startswith("{")]
    assert not bare


def test_sentences_are_those_that_are_kept():
    assert lines() == KEPT.read_text(encoding="utf-8").splitlines(), "python tests/test_errors.py writes them anew"


def test_a_code_is_the_same_after_pickling():
    import pickle

    error = pickle.loads(pickle.dumps(GgeurError("No.", code="value-wrong")))
    assert (str(error), error.code) == ("No.", "value-wrong")


if __name__ == "__main__":
    KEPT.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
