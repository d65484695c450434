//! The responses of the admin listener.

use tarpon_http::status::Status;

/// An answer to a request.
pub(crate) struct AdminAnswer {
    pub(super) status: Status,
    pub(super) media: &'static str,
    pub(super) content: String,
    /// The allowed methods, for a 405.
    pub(super) allow: &'static str,
}

impl AdminAnswer {
    pub(crate) fn bytes(&self, with_content: bool) -> Vec<u8> {
        let AdminAnswer { status, media, content, allow } = self;
        let (code, reason, len) = (status.code(), status.reason(), content.len());
        let allow = if allow.is_empty() { String::new() } else { format!("Allow: {allow}\r\n") };
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: {media}\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Length: {len}\r\n{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if with_content {
            bytes.extend_from_slice(content.as_bytes());
        }
        bytes
    }
}

pub(crate) fn page(status: Status, content: &str) -> AdminAnswer {
    AdminAnswer { status, media: "text/plain; charset=utf-8", content: content.to_owned(), allow: "" }
}

pub(super) fn not_allowed(allow: &'static str) -> AdminAnswer {
    let content = allow.replace(", ", " or ") + "\n";
    AdminAnswer { allow, ..page(Status::MethodNotAllowed, &content) }
}
