#!/usr/bin/env python3
"""Sends requests with Python's http.client. README.md documents the input and output."""

import http.client
import sys


class Connection(http.client.HTTPConnection):
    count = 0

    def connect(self):
        Connection.count += 1
        super().connect()


connection = Connection(sys.argv[1], timeout=20)
for line in sys.stdin:
    method, target, *fields = line.rstrip("\n").split("\t")
    connection.request(method, target, headers=dict(field.split(": ", 1) for field in fields))
    response = connection.getresponse()
    content = response.read()
    head = [f"{response.status} {Connection.count} as-sent {len(content)}"]
    head += [f"{name}: {value}" for name, value in response.getheaders()]
    sys.stdout.buffer.write("\n".join(head).encode() + b"\n\n" + content)
    sys.stdout.flush()
