//! The status codes that the server sends. RFC 9110, section 15.

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal,)*) => {
        /// A status code with its reason phrase.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Status {
            $(#[doc = concat!(stringify!($code), " ", $reason)] $name,)*
        }

        impl Status {
            /// All statuses, in the order of their codes and of [`Status::index`].
            pub const ALL: [Status; TABLE.len()] = [$(Status::$name),*];
        }

        const TABLE: &[(u16, &str)] = &[$(($code, $reason)),*];
    };
}

statuses! {
    Ok 200 "OK",
    Created 201 "Created",
    NoContent 204 "No Content",
    PartialContent 206 "Partial Content",
    MovedPermanently 301 "Moved Permanently",
    Found 302 "Found",
    SeeOther 303 "See Other",
    NotModified 304 "Not Modified",
    TemporaryRedirect 307 "Temporary Redirect",
    PermanentRedirect 308 "Permanent Redirect",
    BadRequest 400 "Bad Request",
    Unauthorized 401 "Unauthorized",
    Forbidden 403 "Forbidden",
    NotFound 404 "Not Found",
    MethodNotAllowed 405 "Method Not Allowed",
    RequestTimeout 408 "Request Timeout",
    Gone 410 "Gone",
    LengthRequired 411 "Length Required",
    PreconditionFailed 412 "Precondition Failed",
    ContentTooLarge 413 "Content Too Large",
    UriTooLong 414 "URI Too Long",
    RangeNotSatisfiable 416 "Range Not Satisfiable",
    ExpectationFailed 417 "Expectation Failed",
    MisdirectedRequest 421 "Misdirected Request",
    TooManyRequests 429 "Too Many Requests",
    RequestHeaderFieldsTooLarge 431 "Request Header Fields Too Large",
    UnavailableForLegalReasons 451 "Unavailable For Legal Reasons",
    InternalServerError 500 "Internal Server Error",
    NotImplemented 501 "Not Implemented",
    BadGateway 502 "Bad Gateway",
    ServiceUnavailable 503 "Service Unavailable",
    GatewayTimeout 504 "Gateway Timeout",
    HttpVersionNotSupported 505 "HTTP Version Not Supported",
}

/// The codes that the server only passes on, of the registry of status codes.
const OTHERS: &[(u16, &str)] = &[
    (100, "Continue"),
    (101, "Switching Protocols"),
    (102, "Processing"),
    (103, "Early Hints"),
    (202, "Accepted"),
    (203, "Non-Authoritative Information"),
    (205, "Reset Content"),
    (207, "Multi-Status"),
    (208, "Already Reported"),
    (226, "IM Used"),
    (300, "Multiple Choices"),
    (305, "Use Proxy"),
    (402, "Payment Required"),
    (406, "Not Acceptable"),
    (407, "Proxy Authentication Required"),
    (409, "Conflict"),
    (415, "Unsupported Media Type"),
    (422, "Unprocessable Content"),
    (423, "Locked"),
    (424, "Failed Dependency"),
    (425, "Too Early"),
    (426, "Upgrade Required"),
    (428, "Precondition Required"),
    (506, "Variant Also Negotiates"),
    (507, "Insufficient Storage"),
    (508, "Loop Detected"),
    (511, "Network Authentication Required"),
];

impl Status {
    /// Returns the status code.
    pub const fn code(self) -> u16 {
        TABLE[self.index()].0
    }

    /// Returns the status with this code, if the server sends it.
    pub fn from_code(code: u16) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Returns the registered reason phrase.
    pub const fn reason(self) -> &'static str {
        TABLE[self.index()].1
    }

    /// Returns the registered reason phrase of any code: one of another server may be passed on. Empty: the code is not registered.
    pub fn reason_of(code: u16) -> &'static str {
        match Status::from_code(code) {
            Some(status) => status.reason(),
            None => OTHERS.iter().find(|(of, _)| *of == code).map_or("", |(_, reason)| reason),
        }
    }

    /// Returns the position in [`Status::ALL`], for tables with a row per status.
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_ordered_by_code_and_index() {
        assert!(Status::ALL.is_sorted_by_key(|status| status.code()));
        for (index, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status.index(), index);
            assert!((200..600).contains(&status.code()), "{status:?} is final");
            assert!(status.reason().starts_with(|c: char| c.is_ascii_uppercase()));
        }
    }

    #[test]
    fn status_has_its_code_and_reason() {
        assert_eq!((Status::NotFound.code(), Status::NotFound.reason()), (404, "Not Found"));
    }
}
