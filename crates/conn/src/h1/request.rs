//! Makes a request of a head of HTTP/1.
//!
//! ```text
//! origin     GET /path?query                 ─▶ path, query           the authority: Host
//! absolute   GET http://host/path?query      ─▶ scheme, path, query   the authority: the target's
//! authority  CONNECT host:port               ─▶ a tunnel              the authority: the target
//! asterisk   OPTIONS *                       ─▶ the server            the authority: Host
//! ```

use crate::request::{Client, Request, Resource};
use tarpon_http::{
    head::Head,
    target::{self, Target, TargetError},
};

/// Returns the request of a head that lies in `bytes`, with a valid Host field or none, of an unknown client. A target that names a host takes precedence:
/// RFC 9112, section 3.2.2.
#[inline(always)]
pub(crate) fn request<'a>(head: &'a Head<'a>, bytes: &'a [u8], host: Option<&'a [u8]>) -> Request<'a> {
    match head.split_target() {
        Ok(Target::Origin { path, query }) => Request {
            method: head.method,
            client: Client::default(),
            scheme: None,
            authority: host,
            resource: Ok(Resource::Path { path, query }),
            has_plain_path: head.has_plain_path(),
            fields: &head.fields,
            bytes,
        },
        target => request_of(head, bytes, host, target),
    }
}

/// Returns the request of a head with this target, in a form that clients rarely send to an origin server.
#[cold]
fn request_of<'a>(
    head: &'a Head<'a>,
    bytes: &'a [u8],
    host: Option<&'a [u8]>,
    target: Result<Target<'a>, TargetError>,
) -> Request<'a> {
    let (mut scheme, mut authority, mut has_plain_path) = (None, host, head.has_plain_path());
    let resource = target.map(|target| match target {
        Target::Origin { path, query } => Resource::Path { path, query },
        Target::Absolute { scheme: named, authority: host, path, query } => {
            (scheme, authority) = (Some(named), Some(host));
            has_plain_path = target::is_plain(path);
            Resource::Path { path, query }
        }
        Target::Authority(host) => {
            authority = Some(host);
            Resource::Tunnel
        }
        Target::Asterisk => Resource::Server,
    });
    let (method, fields, client) = (head.method, &head.fields, Client::default());
    Request { method, client, scheme, authority, resource, has_plain_path, fields, bytes }
}
