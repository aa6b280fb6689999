"""Processes of Flower: what is said of one that fails, and a name for the SuperLink that no folder has."""

import os
import subprocess
import sys
import time

import pytest

from ggeur.flower.machines import processes
from ggeur.flower.machines.processes import Machines
from ggeur.stats.errors import GgeurError

pytestmark = pytest.mark.needs("flower")


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("\x1b[31mfirst\x1b[0m\nport is taken\n\n", '"port is taken" is the last line of'),
        ("╭─ Error ──╮\n│ No such app │\n╰──────────╯\n", '"No such app" is the last line of'),
        ("", "is empty"),
    ],
)
def test_a_process_that_fails_is_quoted_by_its_last_line(tmp_path, said, last):
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.stdout.reconfigure(encoding='utf-8'); print({said!r}, end=''); sys.exit(3)",
    ]
    with Machines(tmp_path) as machines, pytest.raises(GgeurError, match="'register-0' failed") as told:
        machines.run({"register-0": command}, processes.environment())
    assert last in str(told.value) and str(tmp_path / "register-0.log") in str(told.value)


def test_a_folder_named_like_us_is_not_taken_for_an_app(tmp_path, monkeypatch):
    """Flower asks whether the connection's name is a folder with a pyproject.toml: a checkout lies in many a parent."""
    from flwr.cli.config_migration import _is_legacy_usage

    (tmp_path / "ggeur").mkdir()
    (tmp_path / "ggeur" / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert _is_legacy_usage("ggeur", []) and not _is_legacy_usage(processes.CONNECTION, [])


def test_a_token_is_not_on_a_command_line_and_arrives(tmp_path):
    """As Flower starts a task, which reads its token by Flower's own function; the line is what /proc shows."""
    from ggeur.flower.machines.superexec import HiddenTokens

    child = """
import argparse, sys
from flwr.common.args import add_args_flwr_app_common, try_obtain_flwr_app_token
parser = argparse.ArgumentParser()
add_args_flwr_app_common(parser)
print(try_obtain_flwr_app_token(parser.parse_args()), open("/proc/self/cmdline").read().replace(chr(0), " "))
"""
    token = "ab" * 32
    words = [sys.executable, "-c", child, "--token", token, "--insecure"]
    process = HiddenTokens.Popen(words, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate(timeout=60)
    arrived, _, line = said.partition(" ")
    assert arrived == token and token not in line and "--insecure" in line and process.returncode == 0
    plain = HiddenTokens.Popen(["echo", "nothing to hide"], stdout=subprocess.PIPE, text=True)
    assert plain.communicate(timeout=10)[0] == "nothing to hide\n"


def test_the_places_in_flower_that_are_held_on_to_are_there():
    """Without them a SuperExec shows tokens, and a SuperLink takes commands of every local user, and both say so."""
    from flwr.supercore.superexec.executor import subprocess_executor
    from flwr.superlink import extensions, main

    assert subprocess_executor.subprocess is subprocess
    assert main.extensions is extensions and extensions.get_middleware() == ()


def test_files_of_processes_are_their_users_alone_and_one_that_ends_is_started_again(tmp_path):
    command = [sys.executable, "-c", f"open({str(tmp_path / 'made')!r}, 'a').write('x')"]
    with Machines(tmp_path / "logs") as machines:
        machines.start("one", command, processes.environment())
        end = time.monotonic() + 30
        while not machines.ended("one") and time.monotonic() < end:
            time.sleep(0.02)
        assert machines.keep("one")
        machines.running["one"].wait(30)
    assert (tmp_path / "made").read_text() == "xx" and (tmp_path / "made").stat().st_mode & 0o777 == 0o600


def test_proxies_are_not_asked_for_loopback(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert processes.environment(tmp_path)["NO_PROXY"] == "example.org,127.0.0.1"
    assert os.environ["NO_PROXY"] == "example.org"
