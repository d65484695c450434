"""Sends the same requests to each origin, all on one connection and mixed, and checks that the responses are the same.

    http2_interleaved.py ORIGIN...

Standard input: a list of requests in JSON, as `http2.Client` takes them. Standard output: the list of responses in the order of the requests, each with
its status, its fields without `date`, and its content in base64. `SSL_CERT_FILE` names the certificate of the authority.
"""

import base64
import json
import socket
import ssl
import sys
import urllib.parse

from http2 import Client

TIMEOUT_S = 60
# How many requests are open at a time. HAProxy allows 100, and counts some that have ended.
OPEN_MAX = 60


def connect(origin):
    stream = socket.create_connection((origin.hostname, origin.port), TIMEOUT_S)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if origin.scheme == "http":
        return stream
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    stream = context.wrap_socket(stream, server_hostname=origin.hostname)
    assert stream.selected_alpn_protocol() == "h2"
    return stream


def responses(origin, requests):
    client, waiting = Client(origin.netloc, origin.scheme), list(requests)
    with connect(origin) as stream:
        while waiting or not client.is_complete():
            while waiting and client.state.open_outbound_streams < OPEN_MAX:
                client.begin(waiting.pop(0))
            client.send_contents()
            stream.sendall(client.state.data_to_send())
            if waiting or not client.is_complete():
                client.received(stream.recv(1 << 16))
    return [[status, sorted(field for field in fields if field[0] != "date"), content] for status, fields, content in client.responses()]


requests = json.load(sys.stdin)
first, *others = sys.argv[1:]
want = responses(urllib.parse.urlsplit(first), requests)
for other in others:
    for request, found, wanted in zip(requests, responses(urllib.parse.urlsplit(other), requests), want):
        assert found == wanted, f"{request}: {found[:2]} from {other}, and {wanted[:2]} from {first}"
print(json.dumps([[status, fields, base64.b64encode(content).decode()] for status, fields, content in want]))
