#!/usr/bin/env python3
"""Sends requests to many sites of one server and checks where each response ends: parsed by Python's http.client, it must end
right before the known response that follows. Each line of the input has a host, a method, a target and fields, separated by
tabs. Each line of the output is the status of a response. A wrong response ends the program.
"""

import email.errors
import http.client
import socket
import sys

MULTIPART = (email.errors.StartBoundaryNotFoundDefect, email.errors.MultipartInvariantViolationDefect)
HOST, PORT = sys.argv[1].split(":")
KNOWN, CONTENT = sys.argv[2], sys.argv[3].encode()


class Shared:
    """A socket with one buffer for all responses, so that bytes after a response are not lost."""

    def __init__(self):
        self.socket = socket.create_connection((HOST, int(PORT)), timeout=20)
        self.file = self.socket.makefile("rb")

    def makefile(self, mode):
        return Unclosed(self.file)


class Unclosed:
    """A file that ignores the close of http.client at the end of a response."""

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
    # http.client parses the head as a mail and looks for the parts of multipart content in it.
    defects = [defect for defect in response.msg.defects if not isinstance(defect, MULTIPART)]
    assert not defects, defects
    for name in ["Content-Length", "Content-Type", "Location", "Transfer-Encoding", "Connection", "Server", "Date"]:
        values = response.headers.get_all(name) or []
        assert len(values) <= (name != "Transfer-Encoding"), (name, values)
    has_content = method != "HEAD" and response.status not in (204, 304)
    assert not has_content or response.length is not None, "no length"
    return response, response.read()


shared = Shared()
for line in sys.stdin:
    host, method, target, *fields = line.rstrip("\n").split("\t")
    try:
        shared.socket.sendall(request(host, method, target, fields) + request("known", "GET", KNOWN, []))
        first, _ = response(shared, method)
        if (first.getheader("Connection") or "").lower() == "close":
            assert shared.file.read() == b"", "bytes after the last response"
            shared = Shared()
        else:
            second, content = response(shared, "GET")
            assert (second.status, content) == (200, CONTENT), (second.status, content)
        print(first.status)
    except Exception as error:
        sys.exit(f"{line!r}: {error!r}")
