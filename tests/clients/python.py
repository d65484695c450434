#!/usr/bin/env python3
"""Sends requests with Python's http.client. README.md documents the input and output."""

import http.client
import sys
import urllib.parse

count = 0


def counted(connect):
    def connect_and_count():
        global count
        count += 1
        connect()

    return connect_and_count


origin = urllib.parse.urlsplit(sys.argv[1])
kind = http.client.HTTPSConnection if origin.scheme == "https" else http.client.HTTPConnection
connection = kind(origin.netloc, timeout=20)
connection.connect = counted(connection.connect)
for line in sys.stdin:
    method, target, *fields = line.rstrip("\n").split("\t")
    connection.request(method, target, headers=dict(field.split(": ", 1) for field in fields))
    response = connection.getresponse()
    content = response.read()
    head = [f"{response.status} {count} as-sent {len(content)}"]
    head += [f"{name}: {value}" for name, value in response.getheaders()]
    sys.stdout.buffer.write("\n".join(head).encode() + b"\n\n" + content)
    sys.stdout.flush()
