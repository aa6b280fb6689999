"""The folders of a federation: what is in them, and a site that joins with its own, through a real door."""

import configparser
import json
import shutil
import ssl
import stat
import subprocess
import threading
import time
from contextlib import ExitStack

import httpx
import pytest

from door_place import Place
from ggeur.flower.door.invitations import fingerprint
from ggeur.flower.machines.certificates import AUTHORITY, make_node_key, make_site_certificate
from ggeur.flower.machines.checks import ask_server, check_server
from ggeur.flower.machines.kit import make_kit, read_federation, read_kit
from ggeur.flower.machines.node import Identity
from ggeur.flower.machines.registering import let_in
from ggeur.flower.machines.status import Faults, federation_status
from ggeur.flower.machines.supervisor import join
from refusal import refused

pytestmark = pytest.mark.needs("flower")
SITES = ["leeds", "york"]


@pytest.fixture
def federation(tmp_path):
    make_kit(tmp_path / "federation", SITES, "localhost", 8123)
    return tmp_path / "federation"


def test_each_folder_has_what_its_people_need_and_no_others_secret(federation):
    assert {path.name for path in federation.iterdir()} == {"server", *SITES}
    for number, name in enumerate(SITES):
        kit = read_kit(federation / name)
        assert (kit.server, kit.name, kit.number) == ("localhost:8123", name, number)
        there = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kit.folder.iterdir()}
        files = {"ca.crt", "invitation.pem", "site.toml", "README.md", "start", "ggeur-node.service"}
        assert set(there) == files and there["invitation.pem"] == 0o600 and there["start"] & 0o100
        subprocess.run(["sh", "-n", str(kit.folder / "start")], check=True)
        text = "".join(path.read_text() for path in kit.folder.iterdir())
        assert name in text and not any(f"@{word}@" in text for word in ("name", "server", "folder", "number"))
        assert not set(SITES) - {name} & set(text.split())
        assert kit.authority.read_bytes() == (federation / "server" / AUTHORITY).read_bytes()
    facts = read_federation(federation / "server")
    assert facts is not None
    assert (facts.host, facts.port, facts.sites, facts.listen) == ("localhost", 8123, ("leeds", "york"), "127.0.0.1")
    assert (federation / "server" / "ca.key").stat().st_mode & 0o077 == 0
    assert federation.stat().st_mode & 0o077 == 0


def test_a_kit_is_refused_in_a_sentence(tmp_path, federation):
    with refused("folder-not-empty"):
        make_kit(federation, SITES, "localhost", 1)
    for names, says in ((["a", "A"], "kit-sites-invalid"), (["server"], "kit-sites-invalid"), (["a/b"], "site-name")):
        with refused(says if says.endswith("invalid") else f"{says}-invalid"):
            make_kit(tmp_path / "new", names, "localhost", 1)
    with refused("certificate-host-invalid"):
        make_kit(tmp_path / "odd", ["a"], "https://host", 1)
    with refused("kit-missing"):
        read_kit(tmp_path)
    (federation / "leeds" / "site.toml").write_text("name = 1\n")
    with refused("kit-damaged"):
        read_kit(federation / "leeds")
    assert read_federation(tmp_path) is None
    with refused("register-nobody-asked"):
        let_in(federation / "server", [], None, 1)
    with refused("register-name-missing"):
        let_in(federation / "server", [], tmp_path / "key.pub", 1)
    with refused("link-not-running"):
        federation_status(federation / "server")


@pytest.fixture
def place(tmp_path, federation):
    """The door of the kit's server."""
    with ExitStack() as stack:
        made = Place(tmp_path / "place", stack)
        made.port = made.front(federation / "server")
        kit = federation / "leeds"
        text = (kit / "site.toml").read_text().replace("localhost:8123", f"localhost:{made.port}")
        (kit / "site.toml").write_text(text)
        yield made


def test_a_site_joins_by_a_key_of_its_own_and_its_invitation_is_good_for_nothing_else(federation, place):
    kit, server, said = read_kit(federation / "leeds"), federation / "server", []
    joining = threading.Thread(target=join, args=(kit, said.append), daemon=True)
    joining.start()
    asked, end = server / "asked" / "leeds.pub", time.monotonic() + 20
    while not asked.exists() and time.monotonic() < end:
        time.sleep(0.05)
    print_ = fingerprint(asked.read_text())
    assert asked.read_text().split()[:2] == (kit.folder / "node.pub").read_text().split()[:2]
    context = ssl.create_default_context(cafile=str(kit.authority))
    context.load_cert_chain(kit.invitation)
    with httpx.Client(base_url=f"https://localhost:{place.port}", verify=context, trust_env=False) as client:
        assert client.post("/v1/fleet/pull-messages", content=b"").status_code == 403
        assert client.post("/v1/control/list-nodes", content=b"").status_code == 403
    make_node_key(federation / "thief")
    stolen = json.dumps({"public_key": (federation / "thief.pub").read_text()}).encode()
    with refused("site-refused: another node key"):
        ask_server(f"localhost:{place.port}", context, stolen, lambda sentence: None)
    with refused("site-refused: public key"):
        ask_server(f"localhost:{place.port}", context, b"{}", lambda sentence: None)
    make_site_certificate(server, asked, "leeds")
    joining.join(20)
    assert not joining.is_alive() and kit.certificate.read_bytes() == (server / "sites" / "leeds.crt").read_bytes()
    assert any(print_ in sentence for sentence in said) and any(print_ in sentence for sentence in place.told)
    place.superlink.register(kit.folder / "node.pub", "registered")
    standing = check_server(kit.server, Identity(kit.authority, kit.key, kit.certificate))
    assert not standing.online
    with refused("site-refused: joined already"):
        ask_server(f"localhost:{place.port}", context, stolen, lambda sentence: None)
    assert "joined already" in place.faults["leeds"]


def test_fingerprints_are_those_of_openssh(tmp_path):
    make_node_key(tmp_path / "node")
    print_ = fingerprint((tmp_path / "node.pub").read_text())
    assert print_.startswith("SHA256:") and len(print_) == 50
    if shutil.which("ssh-keygen") is not None:
        words = ["ssh-keygen", "-l", "-f", str(tmp_path / "node.pub")]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert print_ == done.stdout.split()[1]


def test_units_and_the_compose_file_are_what_they_should_be(federation, tmp_path):
    """systemd reads the units, where it is there; paths and users are changed, as their first lines ask."""
    units = [federation / "server" / "ggeur-link.service", federation / "leeds" / "ggeur-node.service"]
    checked = []
    for unit in units:
        parser = configparser.ConfigParser(strict=False)
        parser.optionxform = str
        parser.read(unit)
        assert parser["Service"]["Restart"] == "on-failure" and parser["Service"]["RestartPreventExitStatus"] == "2"
        text = unit.read_text().replace("User=ggeur", "User=root").replace("/opt/ggeur/venv/bin/ggeur", "/bin/true")
        checked.append(tmp_path / unit.name)
        checked[-1].write_text(text)
    if shutil.which("systemd-analyze") is not None:
        words = ["systemd-analyze", "verify", *map(str, checked)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    compose = (federation / "server" / "compose.yaml").read_text()
    assert '"8123:8123"' in compose and "ggeur federate link /federation" in compose


def test_the_last_error_of_each_site_is_kept(tmp_path):
    faults = Faults(tmp_path / "faults.json")
    faults("leeds", "first")
    faults("york", "other")
    faults("leeds", "last")
    kept = json.loads((tmp_path / "faults.json").read_text())
    assert {name: one["why"] for name, one in kept.items()} == {"leeds": "last", "york": "other"}
