"""What `--help` says: four groups, one line a command, one name for one thing, and nothing eaten by the markup."""

import re
from collections import defaultdict

import click
import pytest
import typer
from typer.testing import CliRunner

from ggeur.cli import app

LONG = {
    "demo",
    "fit",
    "run",
    "reproduce",
    "embed",
    "predict",
    "add",
    "forget",
    "audit",
    "report",
    "federate up",
    "federate run",
}
# options that say the same of different things, and so have texts of their own
BY_COMMAND = {"--all", "--host", "--port", "--out", "--days", "--min-count"}


def every(group, words=()):
    """Every command with the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Typer reads the width once, so another test may have set it."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)


COMMANDS = dict(every(typer.main.get_command(app.app)))


def shown(*words):
    found = CliRunner().invoke(app.app, [*words, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert found.exit_code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", found.output)


def test_the_commands_stand_in_four_groups_with_a_line_each():
    text = shown()
    groups = re.findall(r"╭─ (.*?) ─+╮\n(.*?)╰", text, re.S)
    assert [name for name, _ in groups] == ["Options", *app.GROUPS]
    assert len(app.GROUPS) == 4
    lines = [line.strip("│ ").split(None, 1) for _, rows in groups[1:] for line in rows.splitlines()]
    assert all(len(line) == 2 and len(line[1]) < 55 for line in lines)
    assert {name for name, _ in lines} == {words.split()[0] for words in COMMANDS}


@pytest.mark.parametrize("words", [*COMMANDS])
def test_a_help_page_fits_and_keeps_every_word(words):
    page = shown(*words.split())
    assert max(map(len, page.splitlines())) <= 80
    for option in COMMANDS[words].params:
        text = getattr(option, "help", None)
        if text and not getattr(option, "hidden", False):
            assert len(text) < 72, text
            assert set(text.replace("\\[", "[").split()) <= set(page.split()), text  # [privacy] is no markup


@pytest.mark.parametrize("words", sorted(LONG))
def test_a_long_job_can_be_quiet_or_speak_to_programs(words):
    assert {"--quiet", "--json-lines"} <= {name for option in COMMANDS[words].params for name in option.opts}


def test_one_name_is_one_thing():
    """The same option has the same type and, but for a few, as many values, in every command that has it."""
    kinds = defaultdict(set)
    for words, command in COMMANDS.items():
        for option in command.params:
            if isinstance(option, click.Option) and not getattr(option, "hidden", False):
                for name in option.opts:
                    kinds[name].add((option.type.name, words if name in BY_COMMAND else ""))
    assert {name for name, found in kinds.items() if len({kind for kind, _ in found}) > 1} <= BY_COMMAND | {"--table"}
    assert "--kind" not in kinds  # a partition is --partition
