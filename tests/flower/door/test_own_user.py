"""Whose socket it is, told by the kernel, tried with a process of another user where the tests may start one."""

import os
import socket
import subprocess

import pytest

from ggeur.flower.door.own_user import OwnUserOnly, can_tell, is_ours, user_of

pytestmark = [
    pytest.mark.needs("flower"),
    pytest.mark.skipif(not can_tell(), reason="this system does not list sockets with their users"),
]
NOBODY = 65534
CONNECT = 'exec 3<>"/dev/tcp/127.0.0.1/$1"; read'


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_socket_of_ours_is_ours_until_it_is_closed(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("no such address here")
    with server:
        client = socket.create_connection(server.getsockname()[:2])
        accepted, _ = server.accept()
        ends = (client.getsockname()[:2], accepted.getsockname()[:2])
        assert user_of(*ends) == os.geteuid() and is_ours(*ends)
        assert user_of(*reversed(ends)) == os.geteuid(), "the other end is a socket of ours too"
        assert user_of(ends[0], (ends[1][0], 1)) is None
        client.close()  # the kernel now shows it as root's
        assert user_of(*ends) is None and not is_ours(*ends)
        accepted.close()


def test_an_ipv4_connection_made_over_ipv6_is_found():
    with socket.create_server(("127.0.0.1", 0)) as server:
        try:
            client = socket.socket(socket.AF_INET6)
            client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        except OSError:
            pytest.skip("no IPv6 here")
        accepted, address = server.accept()
        assert user_of(address, accepted.getsockname()) == os.geteuid()
        client.close()
        accepted.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_another_users_socket_is_not_ours():
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = ["bash", "-c", CONNECT, "-", str(server.getsockname()[1])]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, user=NOBODY, cwd="/")
        server.settimeout(20)
        accepted, address = server.accept()
        assert user_of(address, accepted.getsockname()) == NOBODY
        assert not is_ours(address, accepted.getsockname())
        other.communicate()
        accepted.close()


def test_a_request_of_anybody_else_is_refused_before_the_application_sees_it():
    import asyncio

    seen, said = [], []

    async def application(scope, receive, send):
        seen.append(scope["type"])

    async def send(message):
        said.append(message)

    guarded, nobody = OwnUserOnly(application), {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
    for kind in ("lifespan", "http", "websocket"):
        asyncio.run(guarded({"type": kind, **nobody}, None, send))
    assert seen == ["lifespan"] and said[0]["status"] == 403 and len(said) == 2


def test_a_header_that_names_another_sender_does_not_make_a_stranger_ours():
    """As uvicorn has it, which believes this header of clients on loopback, port and all."""
    import asyncio

    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    seen, said = [], []

    async def application(scope, receive, send):
        seen.append(tuple(scope["client"]))

    async def send(message):
        said.append(message)

    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, ours = server.accept()
        stack = ProxyHeadersMiddleware(OwnUserOnly(application))
        scope = {"type": "http", "client": ("127.0.0.1", 1), "server": accepted.getsockname()}
        value = f"127.0.0.1:{ours[1]}".encode()
        asyncio.run(stack({**scope, "headers": [(b"x-forwarded-for", value)]}, None, send))
        assert seen == [] and said[0]["status"] == 403
        asyncio.run(stack({**scope, "client": ours, "headers": []}, None, send))
        assert seen == [ours]
        asyncio.run(OwnUserOnly(application)({**scope, "client": None, "headers": []}, None, send))
        assert seen == [ours]
        client.close()
        accepted.close()
