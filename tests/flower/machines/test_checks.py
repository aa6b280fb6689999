"""What a site checks before its node starts, over real TLS: each fault is a sentence, and says whether to wait."""

import json
import socket
import time
from contextlib import ExitStack, asynccontextmanager

import pytest

from door_place import Place
from ggeur.flower.door.listening import Listening, bound, server_context
from ggeur.flower.machines.certificates import make_certificates, make_node_key, make_site_certificate, revoke_site
from ggeur.flower.machines.checks import Passing
from ggeur.flower.machines.node import Heard, Identity, loopback_port, wait_for_free_port
from ggeur.flower.machines.processes import free_ports
from refusal import refused

pytestmark = pytest.mark.needs("flower")


@pytest.fixture
def place(tmp_path):
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def test_a_site_hears_of_every_step_and_who_it_is(place):
    place.superlink.register(place.folder / "node.pub", "online")
    standing, said = place.check()
    assert (standing.node, standing.online) == (2**63 + 5, True)
    assert len(said) == 4 and "leeds" in said[-1]


def test_an_unregistered_node_is_told_what_to_wait_for(place):
    make_node_key(place.folder / "another")
    place.superlink.register(place.folder / "another.pub", "online")
    place.superlink.register(place.folder / "node.pub", "unregistered")
    with refused("node-unregistered: leeds") as told:
        place.check()
    assert isinstance(told.value, Passing)


def test_wrong_names_and_ports_are_told_apart(place):
    with refused("server-name-unknown: no-such-host.invalid"):
        place.check("no-such-host.invalid")
    with refused("server-unreachable"):
        place.check(port=free_ports(1)[0])
    with refused("server-other-host: 127.0.0.1") as told:
        place.check("127.0.0.1")
    assert not isinstance(told.value, Passing), "no waiting helps"
    with socket.create_server(("localhost", 0)) as silent, refused("server-without-tls"):
        silent.settimeout(5)
        import threading

        def hang_up():
            connection, _ = silent.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        place.check(port=silent.getsockname()[1])


def test_another_authority_an_expired_and_a_revoked_certificate(place):
    other = place.folder / "other"
    make_certificates(other, ["localhost"])
    with refused("server-other-authority: localhost"):
        place.check(port=place.front(other))
    revoke_site(place.keys, "leeds")
    (place.keys / "sites").mkdir(exist_ok=True)
    copy = place.folder / "node.crt"
    make_site_certificate(place.keys, place.folder / "node.pub", "york", days=1)
    (place.keys / "sites" / "york.crt").rename(copy)
    (place.keys / "revoked").write_text("york\n")
    with refused("site-refused: revoked") as told:
        place.check(identity=Identity(place.keys / "ca.crt", place.folder / "node", copy))
    assert not isinstance(told.value, Passing)


@pytest.mark.parametrize(("ahead", "fine"), [(0.0, True), (12.0, False), (-400.0, False), (-200.0, True)])
def test_a_wrong_clock_is_told_with_its_seconds(place, ahead, fine):
    """A door whose server's clock differs by so much."""
    node = {"id": "7", "online": False}

    async def answer(scope, receive, send):
        body = json.dumps({"time": time.time() - ahead, "superlink": True, "site": "leeds", "node": node}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    @asynccontextmanager
    async def opening():
        yield answer

    context = server_context(place.keys / "server.crt", place.keys / "server.key", place.keys / "ca.crt")
    port = place.stack.enter_context(Listening(bound("127.0.0.1", 0), context, opening)).port
    if fine:
        assert place.check(port=port)[0].node == 7
    else:
        with refused(f"clock-differs: {abs(ahead):.0f} seconds {'ahead' if ahead > 0 else 'behind'}"):
            place.check(port=port)


def test_a_port_that_a_killed_node_still_holds_is_waited_for(place):
    import threading

    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with refused("address-taken"):
        wait_for_free_port(port, patience=0.0)
    threading.Timer(0.5, taken.close).start()
    wait_for_free_port(port, patience=10.0)


def test_sites_of_one_machine_meet_at_ports_of_their_own():
    ports = [loopback_port(number) for number in range(100)]
    assert len({*ports}) == 100 and ports[0] == 9094  # Flower's own default
    assert 1024 < loopback_port(10**6) < 65536


def test_what_the_server_answers_is_remembered_across_processes(tmp_path):
    """Who was killed is still held for online by the server; the marker says that it was this node's own process."""
    heard = Heard(tmp_path / "online")
    heard("/v1/fleet/activate-node", 503)
    assert not heard.connected and not heard.refused
    heard("/v1/fleet/activate-node", 200)
    assert heard.connected and heard.marker.exists()
    heard("/v1/fleet/send-node-heartbeat", 401)
    assert "does not know it" in heard.refused
    heard.begin()
    assert not heard.connected and not heard.refused and heard.marker.exists()
    heard("/v1/fleet/activate-node", 412)
    assert "did not let it in" in heard.refused
    heard("/v1/fleet/deactivate-node", 200)
    assert not heard.marker.exists()
