#!/usr/bin/env python3
"""Asks many sites of one server, and sees where each response ends: read by Python's http.client, it must end right before the
next one, which is known. Each line of the input is a host, a method, a target and fields, with tabs between. A line of the output
is the status of a response, or "closed"; what is wrong with a response ends the program.
"""

import email.errors
import http.client
import socket
import sys

MULTIPART = (email.errors.StartBoundaryNotFoundDefect, email.errors.MultipartInvariantViolationDefect)
HOST, PORT = sys.argv[1].split(":")
KNOWN, CONTENT = sys.argv[2], sys.argv[3].encode()


class Shared:
    """A socket whose responses are read from one buffer, so that what is behind a response is seen."""

    def __init__(self):
        self.socket = socket.create_connection((HOST, int(PORT)), timeout=20)
        self.file = self.socket.makefile("rb")

    def makefile(self, mode):
        return Unclosed(self.file)


class Unclosed:
    """What http.client closes when a response is over."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def close(self):
        pass

    def flush(self):
        pass


def request(host, method, target, fields):
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


def response(shared, method):
    response = http.client.HTTPResponse(shared, method=method)
    response.begin()
    # http.client parses fields as those of a mail, and looks for the parts of a multipart content among them.
    defects = [defect for defect in response.msg.defects if not isinstance(defect, MULTIPART)]
    assert not defects, defects
    for name in ["Content-Length", "Content-Type", "Location", "Transfer-Encoding", "Connection", "Server", "Date"]:
        values = response.headers.get_all(name) or []
        assert len(values) <= (name != "Transfer-Encoding"), (name, values)
    has_content = method != "HEAD" and response.status not in (204, 304)
    assert not has_content or response.length is not None, "it ends with the connection"
    return response, response.read()


shared = Shared()
for line in sys.stdin:
    host, method, target, *fields = line.rstrip("\n").split("\t")
    try:
        shared.socket.sendall(request(host, method, target, fields) + request("known", "GET", KNOWN, []))
        first, _ = response(shared, method)
        if (first.getheader("Connection") or "").lower() == "close":
            assert shared.file.read() == b"", "bytes behind the last response"
            shared = Shared()
        else:
            second, content = response(shared, "GET")
            assert (second.status, content) == (200, CONTENT), (second.status, content)
        print(first.status)
    except Exception as error:
        sys.exit(f"{line!r}: {error!r}")
