#!/usr/bin/env python3
"""Stands in front of an ACME directory and answers some requests in its place.

    directory_proxy.py PORT DIRECTORY_PORT DIR

DIR has the certificate of localhost and its key (`directory.pem`, `directory.key`) and the root that certifies the directory (`root.pem`). The proxy
adds a line of JSON to `DIR/requests` for each request when it arrives, and one for each response of the directory. Each line of `DIR/answers`, if
there is such a file, is a rule for requests:

    METHOD PREFIX answer FILE       sends the bytes of a file, and closes
    METHOD PREFIX endless FILE      sends the bytes of a file, and then more without end
    METHOD PREFIX header NAME VALUE sets a field of the response of the directory
    METHOD PREFIX hold              waits until the rule is gone
"""

import http.client
import http.server
import json
import os
import ssl
import sys
import threading
import time

PORT, DIRECTORY_PORT, DIR = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
LOCK = threading.Lock()


def file(name):
    return os.path.join(DIR, name)


def note(entry):
    with LOCK, open(file("requests"), "a") as log:
        log.write(json.dumps(entry) + "\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def rule(self):
        """Returns what to do and its arguments: `forward` unless a rule applies."""
        try:
            rules = [line.split() for line in open(file("answers"))]
        except FileNotFoundError:
            rules = []
        for method, prefix, *what in rules:
            if method == self.command and self.path.startswith(prefix):
                return what
        return ["forward"]

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        note({"method": self.command, "path": self.path})
        while (rule := self.rule()) == ["hold"]:
            time.sleep(0.005)
        if rule[0] in ("answer", "endless"):
            self.close_connection = True
            self.wfile.write(open(rule[1], "rb").read())
            while rule[0] == "endless":
                self.wfile.write(b"x" * 4096)
            return
        self.forward(body, rule[1:] if rule[0] == "header" else None)

    def forward(self, body, field):
        trust = ssl.create_default_context(cafile=file("root.pem"))
        directory = http.client.HTTPSConnection("localhost", DIRECTORY_PORT, context=trust)
        directory.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        # With the host of the request, so that the directory names this proxy in its URLs.
        for name, value in self.headers.items():
            directory.putheader(name, value)
        directory.endheaders(body)
        response = directory.getresponse()
        content = response.read()
        note({"method": self.command, "path": self.path, "status": response.status, "content": content.decode()})
        self.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", *([field[0].lower()] if field else [])):
                self.send_header(name, value)
        if field:
            self.send_header(*field)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = handle_request

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client has left."""


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(file("directory.pem"), file("directory.key"))
server = Server(("127.0.0.1", PORT), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
