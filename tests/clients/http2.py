"""Requests over HTTP/2 with the package h2, whose state machine checks each frame of the server. For the programs beside."""

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)

# The parts in which contents are sent, in turn.
PART_LEN = 4000


class Exchange:
    """One request and its response."""

    def __init__(self, request):
        self.unsent = b"x" * request.get("content_length", 0)
        self.status = None
        self.fields = []
        self.content = b""
        self.is_complete = False


class Client:
    """The client's side of a connection, without a socket. A request is a dict: method, path, fields, content_length."""

    def __init__(self, authority, scheme):
        self.authority, self.scheme = authority, scheme
        self.state = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.state.initiate_connection()
        self.exchanges = {}

    def begin(self, request):
        """Sends the head of a request."""
        stream = self.state.get_next_available_stream_id()
        parts = [("method", request["method"]), ("scheme", self.scheme), ("authority", self.authority), ("path", request["path"])]
        fields = [(f":{name}", value) for name, value in parts] + [tuple(field) for field in request.get("fields", [])]
        exchange = self.exchanges[stream] = Exchange(request)
        if exchange.unsent:
            fields.append(("content-length", str(len(exchange.unsent))))
        self.state.send_headers(stream, fields, end_stream=not exchange.unsent)

    def send_contents(self):
        """Sends a part of each content, and further ones as long as the windows allow."""
        is_blocked = False
        while not is_blocked:
            is_blocked = True
            for stream, exchange in self.exchanges.items():
                if not exchange.unsent:
                    continue
                part = exchange.unsent[: min(PART_LEN, self.state.local_flow_control_window(stream))]
                if part:
                    is_blocked = False
                    exchange.unsent = exchange.unsent[len(part) :]
                    self.state.send_data(stream, part, end_stream=not exchange.unsent)

    def received(self, wire):
        """Handles bytes of the server; b"": its end."""
        assert wire, f"the connection ends before {[stream for stream, one in self.exchanges.items() if not one.is_complete]}"
        for event in self.state.receive_data(wire):
            exchange = self.exchanges.get(getattr(event, "stream_id", None))
            match event:
                case ResponseReceived():
                    (name, status), *exchange.fields = event.headers
                    assert name == ":status" and exchange.status is None
                    exchange.status = int(status)
                case DataReceived():
                    exchange.content += event.data
                    if event.flow_controlled_length:
                        self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case StreamEnded():
                    exchange.is_complete = True
                case StreamReset():
                    # The server does not want the rest of the content: RFC 9113, section 8.1.
                    assert exchange.is_complete and event.error_code == ErrorCodes.NO_ERROR, event
                    exchange.unsent = b""
                case ConnectionTerminated():
                    raise AssertionError(event)

    def is_complete(self):
        return all(exchange.is_complete and not exchange.unsent for exchange in self.exchanges.values())

    def responses(self):
        """Returns the status, the fields and the content of each response, in the order of the requests."""
        return [(exchange.status, exchange.fields, exchange.content) for exchange in self.exchanges.values()]
