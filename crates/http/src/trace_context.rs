//! Parses traceparent, the request that a trace has for its whole way. W3C Trace Context, section 3.2.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version  trace-id, 32 digits         parent-id        trace-flags
//! ```
//!
//! Only the trace-id is of use here: it joins the lines of logs of several servers. The flag `sampled` tells whether a caller may have kept the
//! trace. The field itself is forwarded as it came.

use core::fmt;

/// The trace-id of a request: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; TRACE_ID_LEN]);

/// The length of a trace-id in bytes.
pub const TRACE_ID_LEN: usize = 16;

/// The length of a value of version 00. Values of later versions may be longer.
const VALUE_LEN: usize = 55;

impl TraceId {
    /// Returns the trace-id that a value of traceparent has. `None`: the value is invalid.
    pub fn parse(value: &[u8]) -> Option<TraceId> {
        let (known, rest) = value.split_first_chunk::<VALUE_LEN>()?;
        // Section 3.2.4: a later version is parsed as this one, if what it adds begins with a dash. Version ff is invalid.
        let is_version_valid = match &known[..2] {
            b"00" => rest.is_empty(),
            b"ff" => false,
            version => digits::<1>(version).is_some() && matches!(rest, [] | [b'-', ..]),
        };
        let has_dashes = [2, 35, 52].iter().all(|&at| known[at] == b'-');
        let trace_id = digits::<TRACE_ID_LEN>(&known[3..35])?;
        let parent_id = digits::<8>(&known[36..52])?;
        digits::<1>(&known[53..])?;
        // "All bytes as zero is considered an invalid value", of both ids.
        let is_valid = is_version_valid && has_dashes && trace_id != [0; TRACE_ID_LEN] && parent_id != [0; 8];
        is_valid.then_some(TraceId(trace_id))
    }

    /// Returns whether a valid value has the flag `sampled`: section 3.2.2.5.1.
    pub fn is_sampled(value: &[u8]) -> bool {
        let flags = value.get(VALUE_LEN - 2..VALUE_LEN).and_then(digits::<1>);
        flags.is_some_and(|[flags]| flags & 1 == 1)
    }

    /// Returns its bytes; zeros for none.
    pub fn to_bytes(id: Option<TraceId>) -> [u8; TRACE_ID_LEN] {
        id.map_or([0; TRACE_ID_LEN], |id| id.0)
    }

    /// Returns the id with these bytes. `None`: they are zeros.
    pub fn from_bytes(bytes: [u8; TRACE_ID_LEN]) -> Option<TraceId> {
        (bytes != [0; TRACE_ID_LEN]).then_some(TraceId(bytes))
    }
}

/// Returns the bytes that lower-case hexadecimal digits stand for. `text` has two for each byte.
fn digits<const LEN: usize>(text: &[u8]) -> Option<[u8; LEN]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; LEN];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn only_the_lowest_flag_tells_whether_a_trace_is_sampled() {
        for (flags, want) in [
            ("01", true),
            ("03", true),
            ("ff", true),
            ("00", false),
            ("02", false),
            ("10", false),
            ("0g", false),
        ] {
            let value = std::format!("00-{ID}-00f067aa0ba902b7-{flags}");
            assert_eq!(TraceId::is_sampled(value.as_bytes()), want, "{value}");
        }
        assert!(!TraceId::is_sampled(b"01"));
    }

    #[test]
    fn value_has_the_exact_form_of_its_version() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, Option<&str>)] = &[
            // case                      value                                                          trace-id
            ("example",                  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     Some(ID)),
            ("not sampled",              "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",     Some(ID)),
            ("unknown flags",            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff",     Some(ID)),
            ("empty",                    "",                                                            None),
            ("upper case",               "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",     None),
            ("upper case in the parent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067aa0ba902b7-01",     None),
            ("no digit in the flags",    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",     None),
            ("trace-id of zeros",        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",     None),
            ("parent-id of zeros",       "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",     None),
            ("short trace-id",           "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",      None),
            ("moved dash",               "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",     None),
            ("other separators",         "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",     None),
            ("no flags",                 "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-",       None),
            ("one digit of flags",       "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",      None),
            ("more in version 00",       "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",    None),
            ("a space before",           " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",    None),
            ("two in a list",            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01,00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None),
            ("later version",            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     Some(ID)),
            ("later, with more",         "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-any", Some(ID)),
            ("later, with no dash",      "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.any", None),
            ("later, upper case",        "Cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     None),
            ("version ff",               "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     None),
            ("no version",               "g0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     None),
        ];
        for (case, value, want) in cases {
            let found = TraceId::parse(value.as_bytes());
            assert_eq!(found.map(|id| id.to_string()).as_deref(), *want, "{case}");
            assert_eq!(TraceId::from_bytes(TraceId::to_bytes(found)), found, "{case}");
        }
    }
}
