//! Reports of workers about upstream servers, on their way to the helper `tarpon-net`, which writes them to the log.
//!
//! ```text
//! Balancer ── packet, without waiting ─▶ socket of all workers ─▶ tarpon-net
//!     └─ no room: counted in the table
//!
//! packet   server 2 │ kind 1 │ 0 │ length of the reason 2 │ of the request 2 │ reason │ request │ detail
//! ```
//!
//! The socket buffer bounds what waits. Texts may have any bytes, as a worker passes on what servers and clients have sent.

use crate::{
    data::services::{HelperEndpoint, ServiceEndpoint},
    sys::packet,
};
use rustix::io::Errno;
use tarpon_conn::{ERROR_LINE_LEN_MAX, REPORTED_REQUEST_LEN_MAX, ServerReport};

/// A report, as the helper gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerReport<'a> {
    /// The number of the server.
    pub(crate) server: u16,
    pub(crate) kind: ReportKind,
    /// Why an exchange has failed. Empty for a line of error output.
    pub(crate) reason: &'a [u8],
    /// Text of the server about the reason, or the line.
    pub(crate) detail: &'a [u8],
    /// The method and the path.
    pub(crate) request: &'a [u8],
}

/// The subject of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportKind {
    /// An exchange that has failed.
    Failed,
    /// A line that a program of FastCGI has written to its standard error.
    ErrorOutput,
}

/// The longest reason in bytes: a sentence, with what to do.
const REASON_LEN_MAX: usize = 512;

/// The longest detail in bytes: a line, with the mark that it was cut.
const DETAIL_LEN_MAX: usize = ERROR_LINE_LEN_MAX + '…'.len_utf8();

const HEADER_LEN: usize = 8;

/// The longest packet.
const PACKET_LEN_MAX: usize = HEADER_LEN + REASON_LEN_MAX + REPORTED_REQUEST_LEN_MAX + DETAIL_LEN_MAX;

impl<'a> WorkerReport<'a> {
    /// Returns the packet of a report. Texts that are too long are cut.
    fn encode(&self) -> Vec<u8> {
        let [reason, request, detail] = [
            (self.reason, REASON_LEN_MAX),
            (self.request, REPORTED_REQUEST_LEN_MAX),
            (self.detail, DETAIL_LEN_MAX),
        ]
        .map(|(text, max)| &text[..text.len().min(max)]);
        let [server, reason_len, request_len] =
            [self.server, reason.len() as u16, request.len() as u16].map(u16::to_le_bytes);
        let kind = [self.kind as u8, 0];
        [&server[..], &kind, &reason_len, &request_len, reason, request, detail].concat()
    }

    /// Reads a packet. `None`: no worker of ours sends it.
    fn decode(bytes: &'a [u8]) -> Option<WorkerReport<'a>> {
        let (&[server_low, server_high, kind, _, reason_low, reason_high, request_low, request_high], texts) =
            bytes.split_first_chunk::<HEADER_LEN>()?;
        let kind = match kind {
            0 => ReportKind::Failed,
            1 => ReportKind::ErrorOutput,
            _ => return None,
        };
        let (reason, rest) = texts.split_at_checked(u16::from_le_bytes([reason_low, reason_high]).into())?;
        let (request, detail) =
            rest.split_at_checked(u16::from_le_bytes([request_low, request_high]).into())?;
        // The helper counts lines by their reason: a captured worker must not write more of them by many reasons.
        if kind == ReportKind::ErrorOutput && !reason.is_empty() {
            return None;
        }
        Some(WorkerReport {
            server: u16::from_le_bytes([server_low, server_high]),
            kind,
            reason,
            detail,
            request,
        })
    }
}

/// Sends a report to the helper, without waiting.
///
/// # Errors
/// The helper has not received what was sent before (`AGAIN`), or this process is out of memory: the report is lost.
pub(super) fn send(endpoint: &ServiceEndpoint, server: u16, report: ServerReport<'_>) -> Result<(), Errno> {
    let packet = match report {
        ServerReport::Failed { reason, detail, request } => {
            let reason = reason.to_string();
            WorkerReport { server, kind: ReportKind::Failed, reason: reason.as_bytes(), detail, request }
                .encode()
        }
        ServerReport::ErrorOutput { line, request } => {
            WorkerReport { server, kind: ReportKind::ErrorOutput, reason: b"", detail: line, request }
                .encode()
        }
    };
    packet::send(endpoint, &packet, None)
}

/// Passes the next reports of workers to `each`, without waiting: `max` at most. Returns whether more may come: not if every worker has exited.
pub(crate) fn receive(endpoint: &HelperEndpoint, max: usize, mut each: impl FnMut(WorkerReport<'_>)) -> bool {
    let mut bytes = [0; PACKET_LEN_MAX];
    for _ in 0..max {
        match packet::receive(endpoint, &mut bytes) {
            // An empty packet has the same length as the end of all workers.
            Ok(packet) if packet.len == 0 && endpoint.has_ended() => return false,
            Ok(packet) => WorkerReport::decode(&bytes[..packet.len]).into_iter().for_each(&mut each),
            Err(_) => return true,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::services::endpoints;
    use tarpon_conn::FailureReason;

    #[test]
    fn reports_arrive_without_waiting_until_the_socket_is_full() {
        let (worker, helper) = endpoints().unwrap();
        let request = &b"GET /\xff\x1b"[..];
        let failed = ServerReport::Failed { reason: FailureReason::Broken, detail: b"d", request };
        send(&worker, 7, failed).unwrap();
        send(&worker, u16::MAX, ServerReport::ErrorOutput { line: &[b'x'; 5_000], request: &[b'y'; 5_000] })
            .unwrap();
        // Packets that no worker of ours sends.
        for packet in [
            &b""[..],
            b"1234567",
            &[0, 0, 2, 0, 0, 0, 0, 0],
            &[0, 0, 1, 0, 1, 0, 0, 0, b'r'],
            &[0, 0, 0, 0, 1, 0, 0, 0],
            &[0; 5_000],
        ] {
            packet::send(&worker, packet, None).unwrap();
        }
        let mut count = 0;
        receive(&helper, 100, |report| {
            count += 1;
            let reason = FailureReason::Broken.to_string();
            let reason = reason.as_bytes();
            match count {
                1 => {
                    let kind = ReportKind::Failed;
                    assert_eq!(report, WorkerReport { server: 7, kind, reason, detail: b"d", request });
                }
                2 => {
                    assert_eq!((report.server, report.kind), (u16::MAX, ReportKind::ErrorOutput));
                    let lens = [report.reason, report.detail, report.request].map(<[u8]>::len);
                    assert_eq!(lens, [0, DETAIL_LEN_MAX, REPORTED_REQUEST_LEN_MAX]);
                }
                _ => assert!(report.detail.len() <= PACKET_LEN_MAX),
            }
        });
        assert_eq!(count, 3, "the last one is cut, and valid");
        let sent = (0..100_000).take_while(|_| send(&worker, 1, failed).is_ok()).count();
        assert!((32..50_000).contains(&sent), "{sent} reports wait");
        let mut received = 0;
        receive(&helper, usize::MAX, |_| received += 1);
        assert_eq!(received, sent);
    }
}
