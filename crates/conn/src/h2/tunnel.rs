//! An exchange that becomes a tunnel: WebSocket by extended CONNECT. RFC 8441.
//!
//! ```text
//! CONNECT, :protocol ─▶ Asked ─ 101 of the server ─▶ Open: DATA both ways, until each side ends it, or one resets it
//!                         └──── another status ────▶ No: a usual response
//! ```
//!
//! The server behind speaks HTTP/1: it gets a GET request with Upgrade and a key of this server. Nothing else goes to it before it agrees.

use super::{
    Http2,
    stream::{Body, Upload},
};
use crate::{
    ConnResources,
    backend::BackendProtocol,
    pipe::{Message, PipeEnd, Side},
    sites::Route,
};
use tarpon_http::{
    h2::{ErrorCode, H2Request},
    status::Status,
};

/// Whether an exchange is a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TunnelState {
    No,
    /// The server has not answered.
    Asked,
    /// Bytes pass as they are.
    Open,
}

/// The protocol of tunnels.
pub(super) const WEBSOCKET: &[u8] = b"websocket";

/// The status with which a server of HTTP/1 agrees. RFC 9110, section 15.2.2.
pub(super) const SWITCHING_PROTOCOLS: u16 = 101;

impl TunnelState {
    /// Returns the code of a reset because the server has failed after its head. RFC 8441, section 5: CANCEL stands for the reset of a tunnel.
    pub(super) fn error_code(self) -> ErrorCode {
        match self {
            TunnelState::Open => ErrorCode::CANCEL,
            TunnelState::No | TunnelState::Asked => ErrorCode::INTERNAL_ERROR,
        }
    }
}

/// Checks a request for a tunnel.
///
/// # Errors
/// Returns the status of the response: tunnels are for WebSocket to upstream servers that speak HTTP/1, and have no length.
#[cold]
pub(super) fn check_tunnel(
    cx: &ConnResources<'_>,
    request: &H2Request<'_>,
    route: Route<'_>,
) -> Result<(), Status> {
    let is_websocket = request.protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(WEBSOCKET));
    let speaks_http =
        matches!(route, Route::Backend(_, to) if cx.pipes.protocol(to.backend) == BackendProtocol::Http1);
    match request.content_length {
        _ if !is_websocket || !speaks_http => Err(Status::NotImplemented),
        Some(_) => Err(Status::BadRequest),
        None => Ok(()),
    }
}

impl Http2 {
    /// Opens the tunnel that a client has asked for, or gives it up: as the server has answered.
    pub(super) fn answer_tunnel(&mut self, cx: &mut ConnResources<'_>, id: u32, is_accepted: bool) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        let Body::Piped(piped) = &mut stream.body else { return };
        piped.tunnel = if is_accepted { TunnelState::Open } else { TunnelState::No };
        if !is_accepted || stream.upload.is_complete() {
            cx.pipes.push(piped.pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
        if !is_accepted {
            self.drop_upload(cx, id);
        }
    }

    /// Ends the direction of the client. Before the server has agreed it gets no end, for it waits for none.
    pub(super) fn end_tunnel_upload(&mut self, cx: &mut ConnResources<'_>, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        stream.upload = Upload::Complete;
        if let Body::Piped(piped) = &stream.body
            && piped.tunnel == TunnelState::Open
        {
            cx.pipes.push(piped.pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
    }
}
