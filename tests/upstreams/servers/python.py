# Responds with http.server, and with WSGI programs of the standard library below /wsgi/. README.md documents the responses.

import io
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

events = threading.Semaphore(0)


def wsgi(environ, start_response):
    names = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_HOST", "PATH_INFO", "QUERY_STRING")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return ["".join(f"{name}={environ.get(name, '')}\n" for name in names).encode()]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/app/":
            self.respond(200, b"hello from python\n")
        elif self.path == "/app/chunks":
            self.start_chunks("text/plain")
            for number in range(100):
                self.chunk(b"chunk %d\n" % number)
            self.chunk(b"")
        elif self.path == "/app/events":
            self.start_chunks("text/event-stream")
            for number in range(3):
                events.acquire()
                self.chunk(b"data: %d\n\n" % number)
            self.chunk(b"")
        elif self.path.startswith("/app/wsgi"):
            self.run_wsgi()
        else:
            self.respond(404, b"nothing\n")

    do_HEAD = do_GET

    def do_POST(self):
        if self.path == "/app/next":
            self.content()
            events.release()
            self.respond(204, b"")
        else:
            self.respond(200, self.content())

    def content(self):
        if self.headers.get("Transfer-Encoding") is None:
            return self.rfile.read(int(self.headers["Content-Length"]))
        content = io.BytesIO()
        while size := int(self.rfile.readline(), 16):
            content.write(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline() != b"\r\n":
            pass
        return content.getvalue()

    def respond(self, status, content):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def start_chunks(self, media_type):
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, content):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def run_wsgi(self):
        path, _, query = self.path.partition("?")
        environ = {"PATH_INFO": path, "QUERY_STRING": query}
        for name, value in self.headers.items():
            environ["HTTP_" + name.upper().replace("-", "_")] = value
        self.respond(200, b"".join(wsgi(environ, lambda status, fields: None)))

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
# The test ends the program.
sys.stdin.read()
