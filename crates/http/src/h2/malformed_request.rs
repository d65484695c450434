//! The reasons to refuse the fields of a request.

/// The reason why a request is malformed. Its stream ends with an error: RFC 9113, section 8.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedRequest {
    /// A name is empty, has capitals, or is no token: RFC 9113, section 8.2.1.
    Name,
    /// A value has control bytes, or white space at an end: RFC 9113, section 8.2.1; RFC 9110, section 5.5.
    Value,
    /// A field is about an HTTP/1 connection: Connection, Keep-Alive, Proxy-Connection, Transfer-Encoding or Upgrade. RFC 9113, section 8.2.2.
    ConnectionField,
    /// TE has another value than `trailers`: RFC 9113, section 8.2.2.
    Te,
    /// A pseudo-header field is unknown, or is that of a response: RFC 9113, section 8.3.
    PseudoField,
    /// A pseudo-header field follows another field: RFC 9113, section 8.3.
    PseudoPlace,
    /// A pseudo-header field is repeated: RFC 9113, section 8.3.
    PseudoRepeated,
    /// A trailer is a pseudo-header field: RFC 9113, section 8.1.
    PseudoInTrailers,
    /// `:method`, `:scheme` or `:path` is missing: RFC 9113, section 8.3.1.
    Missing,
    /// `:method` is no token: RFC 9110, section 9.1.
    Method,
    /// `:scheme` does not have the grammar of a scheme: RFC 3986, section 3.1.
    Scheme,
    /// `:authority` is not `uri-host [ ":" port ]`; userinfo is not allowed: RFC 9113, section 8.3.1.
    Authority,
    /// Neither `:authority` nor Host names a host: RFC 9110, sections 4.2.1 and 7.2.
    NoAuthority,
    /// `:path` does not begin with `/`, contains bytes that a target cannot have, or is `*` without OPTIONS: RFC 9113, section 8.3.1.
    Path,
    /// `:protocol` is no token, without CONNECT, or not expected: RFC 8441, sections 3 and 4.
    Protocol,
    /// CONNECT has `:scheme` or `:path`, or `:authority` has no port: RFC 9113, section 8.5.
    Connect,
    /// Host is repeated, is not `uri-host [ ":" port ]`, or names another host than `:authority`: RFC 9113, section 8.3.1.
    Host,
    /// Content-Length is no number of 64 bits, or several differ: RFC 9113, section 8.1.1.
    ContentLength,
}
