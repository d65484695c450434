//! Connections of HTTP/2 with a client that others wrote, the crate `h2`: whatever it sends may arrive in two parts, and whatever it
//! receives may leave in two parts.

use super::{
    http2::{Http2Row, REQUESTS, over_http1, sim},
    http2_client::StreamReceived,
};
use h2::{
    RecvStream,
    client::{Builder, Connection, ResponseFuture, SendRequest},
};
use http::Request;
use std::{
    cell::RefCell,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker},
};
use tarpon_conn::sim::{Cuts, Sim};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The requests that this client can express: it takes no target `*`, and no path with a character that RFC 3986 excludes.
fn expressible() -> Vec<Http2Row> {
    let rows = REQUESTS.iter().filter(|(_, path, _)| *path != "*" && !path.contains('{'));
    let rows: Vec<Http2Row> = rows.copied().collect();
    assert_eq!(rows.len(), REQUESTS.len() - 2, "of which it cannot express two");
    rows
}

/// A short exchange of each kind: most positions of a longer one are in the content of a file.
fn short() -> Vec<Http2Row> {
    let is_long = |(_, path, fields): &Http2Row| *path == "/large" || *path == "/middle" && fields.is_empty();
    expressible().into_iter().filter(|row| !is_long(row)).collect()
}

#[test]
fn responses_are_those_of_http1_wherever_the_input_is_cut() {
    let rows = short();
    let expected: Vec<StreamReceived> = rows.iter().map(|&row| sorted(over_http1(row))).collect();
    for (window, table_size) in [(65_535, 4_096), (700, 0)] {
        let whole =
            OfOthers::exchange(&rows, window, table_size, Cut { input: usize::MAX, output: usize::MAX });
        assert_eq!(whole.received, expected);
        for input in 0..whole.input_len {
            let cut = Cut { input, output: usize::MAX };
            let parted = OfOthers::exchange(&rows, window, table_size, cut);
            assert!(parted.received == expected, "window {window}, cut at byte {input} of the input");
        }
    }
}

#[test]
fn responses_are_those_of_http1_wherever_the_output_is_cut() {
    let rows = short();
    let expected: Vec<StreamReceived> = rows.iter().map(|&row| sorted(over_http1(row))).collect();
    for (window, table_size) in [(65_535, 4_096), (700, 0)] {
        let whole =
            OfOthers::exchange(&rows, window, table_size, Cut { input: usize::MAX, output: usize::MAX });
        for output in 0..whole.output_len {
            let cut = Cut { input: usize::MAX, output };
            let parted = OfOthers::exchange(&rows, window, table_size, cut);
            assert!(parted.received == expected, "window {window}, cut at byte {output} of the output");
        }
    }
}

#[test]
fn large_content_arrives_whole_in_windows_of_a_client_of_others() {
    let rows = expressible();
    let expected: Vec<StreamReceived> = rows.iter().map(|&row| sorted(over_http1(row))).collect();
    for window in [1, 99, 16_384, 65_535, 1 << 20] {
        for output in [0, 9, 1_000, 50_000, 150_000] {
            let parted = OfOthers::exchange(&rows, window, 4_096, Cut { input: 300, output });
            assert!(parted.received == expected, "window {window}, cut at byte {output}");
        }
    }
}

/// The positions at which both directions are cut. The first part is handled before the rest arrives or leaves.
#[derive(Clone, Copy)]
struct Cut {
    input: usize,
    output: usize,
}

/// The result of an exchange with the client of others.
struct OfOthers {
    /// By request, with the fields of each section sorted: this client keeps no order between names.
    received: Vec<StreamReceived>,
    /// The number of bytes that the client has sent.
    input_len: usize,
    output_len: usize,
}

impl OfOthers {
    /// Sends these requests at once, reads all responses, and ends the connection.
    fn exchange(rows: &[Http2Row], window: u32, table_size: u32, cut: Cut) -> OfOthers {
        let mut sim = sim();
        let socket = MemorySocket::default();
        let mut client = OtherClient::new(socket.clone(), rows, window, table_size);
        let (mut input_len, mut output_len) = (0, 0);
        loop {
            let mut has_moved = client.poll();
            let sent = {
                let mut ends = socket.0.borrow_mut();
                let allowed = if input_len < cut.input { cut.input - input_len } else { usize::MAX };
                let len = ends.from_client.len().min(allowed);
                ends.from_client.drain(..len).collect::<Vec<u8>>()
            };
            input_len += sent.len();
            sim.client_sends(&sent);
            let allowed = if output_len < cut.output { cut.output - output_len } else { usize::MAX };
            run_until(&mut sim, output_len, allowed);
            let arrived = &sim.wire[output_len..];
            has_moved |= !sent.is_empty() || !arrived.is_empty();
            output_len += arrived.len();
            socket.0.borrow_mut().to_client.extend_from_slice(arrived);
            if !has_moved {
                break;
            }
        }
        assert!(client.has_ended(), "the client ends the connection after the last response");
        sim.client_ends();
        sim.run(Cuts::NONE);
        assert_eq!((sim.bufs_held(), sim.sites.holder_count()), (0, 0));
        OfOthers { received: client.received, input_len, output_len }
    }
}

/// Runs the server until it makes no progress, or has sent `allowed` bytes after the first `before`.
fn run_until(sim: &mut Sim, before: usize, allowed: usize) {
    let end = before.saturating_add(allowed);
    while sim.wire.len() < end && sim.step(Cuts { send: end - sim.wire.len(), ..Cuts::NONE }) {}
}

fn sorted(mut received: StreamReceived) -> StreamReceived {
    received.sections.iter_mut().for_each(|fields| fields.sort());
    received
}

/// The client, which only this test polls.
struct OtherClient {
    /// `None` after the last response: the client ends the connection once no sender is left.
    sender: Option<SendRequest<bytes::Bytes>>,
    connection: Option<Connection<MemorySocket>>,
    responses: Vec<Option<ResponseFuture>>,
    contents: Vec<Option<RecvStream>>,
    received: Vec<StreamReceived>,
}

impl OtherClient {
    fn new(socket: MemorySocket, rows: &[Http2Row], window: u32, table_size: u32) -> OtherClient {
        let mut cx = Context::from_waker(Waker::noop());
        let mut builder = Builder::new();
        builder.initial_window_size(window).header_table_size(table_size).enable_push(false);
        let handshake = pin!(builder.handshake(socket)).poll(&mut cx);
        let Poll::Ready(Ok((mut sender, connection))) = handshake else {
            panic!("the client waits for nothing before its preface: {handshake:?}")
        };
        let responses = rows.iter().map(|(method, path, fields)| {
            let mut request = Request::builder().method(*method).uri(format!("http://a{path}"));
            for (name, value) in *fields {
                request = request.header(*name, *value);
            }
            let request = request.body(()).expect("a request that it can express");
            Some(sender.send_request(request, true).expect("a stream").0)
        });
        let responses: Vec<_> = responses.collect();
        OtherClient {
            sender: Some(sender),
            connection: Some(connection),
            contents: rows.iter().map(|_| None).collect(),
            received: vec![StreamReceived::default(); rows.len()],
            responses,
        }
    }

    fn has_ended(&self) -> bool {
        self.connection.is_none()
    }

    /// Lets the client do what it can. Returns whether it did anything that a test can see here.
    fn poll(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut has_moved = false;
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(ended) = Pin::new(connection).poll(&mut cx)
        {
            ended.expect("the server makes no mistake that this client sees");
            (self.connection, has_moved) = (None, true);
        }
        for (number, received) in self.received.iter_mut().enumerate() {
            if let Some(response) = &mut self.responses[number]
                && let Poll::Ready(response) = Pin::new(response).poll(&mut cx)
            {
                let (head, content) = response.expect("a response").into_parts();
                let status = (":status".to_owned(), head.status.as_str().to_owned());
                let fields = head.headers.iter().map(|(name, value)| {
                    (name.as_str().to_owned(), value.to_str().expect("text").to_owned())
                });
                received.sections.push([status].into_iter().chain(fields).collect());
                received.sections.iter_mut().for_each(|fields| fields.sort());
                (self.responses[number], self.contents[number]) = (None, Some(content));
            }
            while let Some(content) = &mut self.contents[number]
                && let Poll::Ready(data) = content.poll_data(&mut cx)
            {
                has_moved = true;
                match data {
                    Some(data) => {
                        let data = data.expect("content");
                        received.content.extend_from_slice(&data);
                        content.flow_control().release_capacity(data.len()).expect("received before");
                    }
                    None => {
                        received.is_complete = content.is_end_stream();
                        self.contents[number] = None;
                    }
                }
            }
        }
        if self.received.iter().all(|received| received.is_complete) {
            self.sender = None;
        }
        has_moved
    }
}

/// The socket of the client, in memory.
#[derive(Clone, Debug, Default)]
struct MemorySocket(Rc<RefCell<SocketEnds>>);

#[derive(Debug, Default)]
struct SocketEnds {
    from_client: Vec<u8>,
    to_client: Vec<u8>,
}

impl AsyncRead for MemorySocket {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bytes = &mut self.0.borrow_mut().to_client;
        if bytes.is_empty() {
            // This test polls again whenever anything has moved.
            return Poll::Pending;
        }
        let len = bytes.len().min(to.remaining());
        to.put_slice(&bytes[..len]);
        bytes.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemorySocket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().from_client.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
