//! A request without its protocol.
//!
//! The protocol parses bytes into a [`Request`]; route and plan read nothing else of it. A response is queued after the bytes of the
//! request are gone, so what it needs of them is copied into a buffer before; until then a [`RequestPart`] names it by place.

use tarpon_http::{
    head::{Head, Method},
    target::{self, Target, TargetError},
};

/// A request. All its parts lie in one buffer.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The method.
    pub(crate) method: Method,
    /// The target, parsed once.
    pub(crate) target: Result<Target<'a>, TargetError>,
    /// The value of the Host field.
    pub(crate) host: Option<&'a [u8]>,
    /// The fields.
    pub(crate) head: &'a Head<'a>,
    /// What all parts of the request lie in.
    bytes: &'a [u8],
}

/// A part of a request, by its place in the bytes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPart {
    at: u32,
    len: u32,
}

impl<'a> Request<'a> {
    /// Returns the request of a head that lies in `bytes`, with a valid Host field or none.
    #[inline]
    pub(crate) fn new(head: &'a Head<'a>, bytes: &'a [u8], host: Option<&'a [u8]>) -> Request<'a> {
        let target = target::parse(head.method, head.target);
        Request { method: head.method, target, host, head, bytes }
    }

    /// Returns whether the response has content: not for HEAD (RFC 9110, section 9.3.2).
    #[inline]
    pub(crate) fn with_content(&self) -> bool {
        self.method != Method::Head
    }

    /// Returns the path, as received. `None`: the target is invalid, or has none.
    #[inline]
    pub(crate) fn path(&self) -> Option<&'a [u8]> {
        match self.target {
            Ok(Target::Origin { path, .. } | Target::Absolute { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Returns the host that the request is for. A target that names one takes precedence: RFC 9112, section 3.2.2.
    #[inline]
    pub(crate) fn authority(&self) -> Option<&'a [u8]> {
        match self.target {
            Ok(Target::Absolute { authority, .. } | Target::Authority(authority)) => Some(authority),
            _ => self.host,
        }
    }

    /// Returns the place of `part`, which is a slice of the bytes of the request.
    pub(crate) fn part(&self, part: &[u8]) -> RequestPart {
        let at = part.as_ptr().addr() - self.bytes.as_ptr().addr();
        RequestPart { at: at as u32, len: part.len() as u32 }
    }
}

impl RequestPart {
    /// Returns the part with the byte before it, such as the `?` of a query.
    pub(crate) fn with_byte_before(self) -> RequestPart {
        RequestPart { at: self.at - 1, len: self.len + 1 }
    }

    /// Returns the bytes of the part in the bytes of its request.
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at as usize..][..self.len as usize]
    }
}
