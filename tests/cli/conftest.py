"""What the tests of the command line share."""

import sys

import pytest

from ggeur import GgeurError
from ggeur.cli import main
from refusal import Sentence


@pytest.fixture
def ggeur(capsys, monkeypatch):
    """Run a command in this process: (exit code, stdout, stderr, which knows the code of the error that it tells)."""

    def run(*argv):
        monkeypatch.setattr(sys, "argv", ["ggeur", *map(str, argv)])
        code, error = 0, None
        try:
            main()
        except SystemExit as end:
            code, error = end.code or 0, end.__context__
        out, err = capsys.readouterr()
        err = Sentence(err)
        if isinstance(error, GgeurError):
            err.code = error.code
        return code, out, err

    return run
