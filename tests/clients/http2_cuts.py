"""Sends the same frames on many connections, cut in different places, and checks that the responses are the same.

    http2_cuts.py HOST PORT

Standard input: a list of requests in JSON, as `http2.Client` takes them. Standard output: the length of the frames, and the list of responses, each with
its status, its fields without `date`, and its content.

The server has read each piece before the next one is sent, as the kernel says: proc(5), /proc/net/tcp.
"""

import json
import socket
import sys
import time

from http2 import Client

TIMEOUT_S = 60


class CutConnection:
    """A connection whose frames are sent in pieces."""

    def __init__(self, server, requests, cuts):
        self.client = Client("localhost", "http")
        for request in requests:
            self.client.begin(request)
        self.client.state.ping(b"12345678")
        self.client.send_contents()
        assert all(not exchange.unsent for exchange in self.client.exchanges.values()), "the windows hold all contents"
        self.script = self.client.state.data_to_send()
        places = [0, *cuts(len(self.script)), len(self.script)]
        self.pieces = [self.script[begin:end] for begin, end in zip(places, places[1:])]
        self.stream = socket.create_connection(server, TIMEOUT_S)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self.stream.getsockname()[1]

    def responses(self):
        while not self.client.is_complete():
            self.client.received(self.stream.recv(1 << 16))
            self.stream.sendall(self.client.state.data_to_send())
        self.stream.close()
        found = self.client.responses()
        return [[status, [field for field in fields if field[0] != "date"], content.decode()] for status, fields, content in found]


def wait_until_read(ports, server):
    """Waits until the process of the server has read all that was sent from these ports."""
    # In this order: bytes on their way are in neither queue of a row of the server.
    wait_for(lambda rows: all(unacked == 0 for local, remote, unacked, _ in rows if remote == server and local in ports))
    wait_for(lambda rows: all(unread == 0 for local, remote, _, unread in rows if local == server and remote in ports))


def wait_for(holds):
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(tcp_rows()):
        assert time.monotonic() < deadline, "the server does not read"
        time.sleep(0.0002)


def tcp_rows():
    """Returns both ports of each socket, and how much is unacknowledged and unread."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in list(table)[1:]]
    return [(int(row[1][-4:], 16), int(row[2][-4:], 16), *(int(queue, 16) for queue in row[4].split(":"))) for row in rows]


def main():
    server, requests = (sys.argv[1], int(sys.argv[2])), json.load(sys.stdin)
    [(script, want)] = exchange(server, requests, [lambda length: []])
    # A few pieces first: the table of the kernel is short.
    plans = [[lambda length, step=step: range(step, length, step) for step in (5, 16)]]
    plans += [[lambda length, at=at: [at] for at in range(1, len(script))]]
    for plan in plans:
        for found in exchange(server, requests, plan):
            assert found == (script, want), f"{found} is not {(script, want)}"
    print(json.dumps({"script_len": len(script), "responses": want}))


def exchange(server, requests, plan):
    """Sends the frames on a connection for each way to cut them. Returns the frames and the responses of each."""
    connections = [CutConnection(server, requests, cuts) for cuts in plan]
    while unsent := [connection for connection in connections if connection.pieces]:
        for connection in unsent:
            connection.stream.sendall(connection.pieces.pop(0))
        wait_until_read({connection.port for connection in unsent}, server[1])
    return [(connection.script, connection.responses()) for connection in connections]


main()
