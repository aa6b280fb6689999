"""What the tests of the command line share."""

import sys

import pytest

from ggeur.cli import main


@pytest.fixture
def ggeur(capsys, monkeypatch):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def run(*argv):
        monkeypatch.setattr(sys, "argv", ["ggeur", *map(str, argv)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run
