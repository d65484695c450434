//! The formats of a line of the access log. Times are UTC.
//!
//! | format | line |
//! |---|---|
//! | `common` | `192.0.2.7 - - [14/Jan/2026:04:21:21 +0000] "GET / HTTP/1.0" 200 137` |
//! | `combined` | the same, and ` "https://example.net/" "Mozilla/5.0"`: Referer and User-Agent |
//! | `simple` | `192.0.2.7 2026-01-14T04:21:21Z "GET / HTTP/1.0" 200 137` |
//! | `json` | one object, always with the same keys in the same order; see docs/logging.md |
//!
//! The byte count is the content that was sent. An unknown value is `-`, in JSON `null`. Bytes of a client are escaped; a truncated value
//! ends in `...`, and in JSON the key `cut` names it.

use super::{escape, exchange::Exchange};
use crate::{
    base::log_config::{LogClientIp, LogFormat},
    control::tls,
};
use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use tarpon_conn::{RecordedText, TlsSession};
use tarpon_http::date;

/// Formats lines.
pub(super) struct Formatter {
    format: LogFormat,
    client_ip: LogClientIp,
    second: FormattedSecond,
}

impl Formatter {
    pub(super) fn new(format: LogFormat, client_ip: LogClientIp) -> Formatter {
        Formatter { format, client_ip, second: FormattedSecond::new(0) }
    }

    /// Appends the line of an exchange, with its line end.
    pub(super) fn line(&mut self, exchange: &Exchange<'_>, to: &mut Vec<u8>) {
        let unix_s = exchange.start.unix_ms / 1_000;
        if self.second.unix_s != unix_s {
            self.second = FormattedSecond::new(unix_s);
        }
        match self.format {
            LogFormat::Common | LogFormat::Combined => self.common(exchange, to),
            LogFormat::Simple => self.simple(exchange, to),
            LogFormat::Json => self.json(exchange, to),
        }
        to.push(b'\n');
    }

    fn common(&self, exchange: &Exchange<'_>, to: &mut Vec<u8>) {
        let start = &exchange.start;
        address(self.client_ip.shown(start.client), to);
        to.extend_from_slice(b" - ");
        user(start.user, to);
        put(to, format_args!(" [{}] \"", self.second.common));
        text(start.line, to);
        put(to, format_args!("\" {} {}", start.status, exchange.content_len));
        if self.format == LogFormat::Combined {
            for value in [start.referer, start.agent] {
                to.extend_from_slice(b" \"");
                text(value, to);
                to.push(b'"');
            }
        }
    }

    fn simple(&self, exchange: &Exchange<'_>, to: &mut Vec<u8>) {
        let start = &exchange.start;
        address(self.client_ip.shown(start.client), to);
        put(to, format_args!(" {}Z \"", self.second.iso));
        text(start.line, to);
        put(to, format_args!("\" {} {}", start.status, exchange.content_len));
    }

    fn json(&self, exchange: &Exchange<'_>, to: &mut Vec<u8>) {
        let start = &exchange.start;
        put(to, format_args!("{{\"time\":\"{}.{:03}Z\"", self.second.iso, start.unix_ms % 1_000));
        match self.client_ip.shown(start.client) {
            Some(address) => put(to, format_args!(",\"client\":\"{address}\"")),
            None => to.extend_from_slice(b",\"client\":null"),
        }
        let parts = split(start.line).filter(|_| start.version.is_some());
        let [method, target, version] = parts.unwrap_or_default();
        let request = if parts.is_some() { RecordedText::default() } else { start.line };
        let values = [
            ("method", method),
            ("target", target),
            ("version", version),
            ("request", request),
            ("host", start.host),
            ("referer", start.referer),
            ("user_agent", start.agent),
            ("user", start.user),
        ];
        for (key, value) in values {
            put(to, format_args!(",\"{key}\":"));
            quotation(value.bytes, to);
        }
        let (status, len, took_ms) = (start.status, exchange.content_len, exchange.took_ms);
        put(to, format_args!(",\"status\":{status},\"bytes\":{len},\"duration_ms\":{took_ms}"));
        put(to, format_args!(",\"complete\":{},\"cut\":[", exchange.is_complete));
        let cut: Vec<_> =
            values.iter().filter(|(_, value)| value.cut).map(|(key, _)| format!("\"{key}\"")).collect();
        put(to, format_args!("{}]", cut.join(",")));
        if let Some(TlsSession { is_tls13, is_resumed, suite }) = start.tls {
            let (version, suite) = (if is_tls13 { "1.3" } else { "1.2" }, suite_name(suite));
            put(
                to,
                format_args!(
                    ",\"tls\":{{\"version\":\"{version}\",\"suite\":\"{suite}\",\"resumed\":{is_resumed}}}"
                ),
            );
        }
        if let Some(trace_id) = start.trace_id {
            put(to, format_args!(",\"trace_id\":\"{trace_id}\""));
        }
        to.push(b'}');
    }
}

impl LogClientIp {
    /// Returns the part of a client's address that may be logged.
    pub(super) fn shown(self, peer: Option<IpAddr>) -> Option<IpAddr> {
        match (self, peer?) {
            (LogClientIp::Full, peer) => Some(peer),
            (LogClientIp::Truncated, IpAddr::V4(v4)) => {
                Some(Ipv4Addr::from_bits(v4.to_bits() & NET_V4).into())
            }
            (LogClientIp::Truncated, IpAddr::V6(v6)) => {
                Some(Ipv6Addr::from_bits(v6.to_bits() & NET_V6).into())
            }
            (LogClientIp::None, _) => None,
        }
    }
}

/// Returns the name of a cipher suite in IANA's registry "TLS Cipher Suites".
fn suite_name(number: u16) -> String {
    match tls::suite_name(number) {
        // rustls tells the suites of TLS 1.3 by their names.
        Some(name) => name.replacen("TLS13_", "TLS_", 1),
        None => format!("0x{number:04x}"),
    }
}

/// A formatted second: many lines share one.
struct FormattedSecond {
    unix_s: u64,
    /// As in `14/Jan/2026:04:21:21 +0000`.
    common: String,
    /// As in `2026-01-14T04:21:21`.
    iso: String,
}

impl FormattedSecond {
    fn new(unix_s: u64) -> FormattedSecond {
        let text = |ascii: &[u8]| ascii.iter().copied().map(char::from).collect();
        let (common, iso) =
            (text(&date::format_common_log(unix_s)), text(&date::format_rfc3339(unix_s)[..19]));
        FormattedSecond { unix_s, common, iso }
    }
}

/// Splits a parsed request-line into method, target and version, none of which contains a space.
fn split(line: RecordedText<'_>) -> Option<[RecordedText<'_>; 3]> {
    let part = |bytes, cut| RecordedText { bytes, cut };
    let mut parts = line.bytes.splitn(3, |&byte| byte == b' ');
    let (method, target) = (parts.next()?, parts.next()?);
    let version = parts.next().unwrap_or_default();
    // Truncation removes the end of the line, and with it the version.
    Some([part(method, false), part(target, line.cut && version.is_empty()), part(version, line.cut)])
}

fn address(shown: Option<IpAddr>, to: &mut Vec<u8>) {
    match shown {
        Some(address) => put(to, format_args!("{address}")),
        None => to.push(b'-'),
    }
}

fn text(value: RecordedText<'_>, to: &mut Vec<u8>) {
    if value.bytes.is_empty() {
        to.push(b'-');
    }
    escape::quoted(value.bytes, to);
    if value.cut {
        to.extend_from_slice(b"...");
    }
}

/// Appends the name of a user: a word, for programs that split a line at its spaces.
fn user(value: RecordedText<'_>, to: &mut Vec<u8>) {
    if value.bytes.is_empty() {
        to.push(b'-');
    }
    escape::word(value.bytes, to);
}

fn quotation(value: &[u8], to: &mut Vec<u8>) {
    if value.is_empty() {
        return to.extend_from_slice(b"null");
    }
    to.push(b'"');
    escape::json(value, to);
    to.push(b'"');
}

fn put(to: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    to.write_fmt(arguments).expect("writing to a Vec cannot fail");
}

/// Three bytes of an IPv4 address stay, as is usual in analytics programs.
const NET_V4: u32 = 0xffff_ff00;
/// The prefix of a site stays of an IPv6 address: RFC 6177.
const NET_V6: u128 = !0 << (128 - 48);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{array, prelude::*};
    use std::array::from_fn as array_of;
    use tarpon_conn::{ExchangeId, RequestStart, Tick};
    use tarpon_http::{head::Version, trace_context::TraceId};

    #[test]
    fn each_format_shows_what_is_known() {
        let (all, broken) =
            (exchange(), Exchange { start: nothing(), took_ms: 9, content_len: 0, is_complete: false });
        let mut with_tls = exchange();
        let mut with_user = exchange();
        with_user.start.user = RecordedText { bytes: b"ann b", cut: false };
        let mut with_trace = exchange();
        let traceparent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        with_trace.start.trace_id = TraceId::parse(traceparent);
        with_tls.start.tls = Some(TlsSession { is_tls13: true, is_resumed: true, suite: 0x1301 });
        #[rustfmt::skip]
        let cases: &[(&str, LogFormat, LogClientIp, &Exchange<'_>, &str)] = &[
            ("common",          LogFormat::Common,   LogClientIp::Full,      &all, r#"192.0.2.7 - - [14/Jan/2026:04:21:21 +0000] "GET /?q=\x22 HTTP/1.1" 200 137"#),
            ("a user",          LogFormat::Common,   LogClientIp::Full,      &with_user, r#"192.0.2.7 - ann\x20b [14/Jan/2026:04:21:21 +0000] "GET /?q=\x22 HTTP/1.1" 200 137"#),
            ("combined",        LogFormat::Combined, LogClientIp::Full,      &all, r##"192.0.2.7 - - [14/Jan/2026:04:21:21 +0000] "GET /?q=\x22 HTTP/1.1" 200 137 "-" "M\xC3\xB6zilla...""##),
            ("simple",          LogFormat::Simple,   LogClientIp::Truncated, &all, r#"192.0.2.0 2026-01-14T04:21:21Z "GET /?q=\x22 HTTP/1.1" 200 137"#),
            ("no client",       LogFormat::Simple,   LogClientIp::None,      &all, r#"- 2026-01-14T04:21:21Z "GET /?q=\x22 HTTP/1.1" 200 137"#),
            ("json",            LogFormat::Json,     LogClientIp::Full,      &all, r#"{"time":"2026-01-14T04:21:21.042Z","client":"192.0.2.7","method":"GET","target":"/?q=\"","version":"HTTP/1.1","request":null,"host":"example.net","referer":null,"user_agent":"Mözilla","user":null,"status":200,"bytes":137,"duration_ms":3,"complete":true,"cut":["user_agent"]}"#),
            ("json, TLS",       LogFormat::Json,     LogClientIp::Full,      &with_tls, r#"{"time":"2026-01-14T04:21:21.042Z","client":"192.0.2.7","method":"GET","target":"/?q=\"","version":"HTTP/1.1","request":null,"host":"example.net","referer":null,"user_agent":"Mözilla","user":null,"status":200,"bytes":137,"duration_ms":3,"complete":true,"cut":["user_agent"],"tls":{"version":"1.3","suite":"TLS_AES_128_GCM_SHA256","resumed":true}}"#),
            ("json, trace",     LogFormat::Json,     LogClientIp::Full,      &with_trace, r#"{"time":"2026-01-14T04:21:21.042Z","client":"192.0.2.7","method":"GET","target":"/?q=\"","version":"HTTP/1.1","request":null,"host":"example.net","referer":null,"user_agent":"Mözilla","user":null,"status":200,"bytes":137,"duration_ms":3,"complete":true,"cut":["user_agent"],"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}"#),
            ("malformed",       LogFormat::Common,   LogClientIp::Full,      &broken, r#"- - - [01/Jan/1970:00:00:00 +0000] "\x16\x03" 400 0"#),
            ("malformed, json", LogFormat::Json,     LogClientIp::Full,      &broken, r#"{"time":"1970-01-01T00:00:00.000Z","client":null,"method":null,"target":null,"version":null,"request":"\u0016\u0003","host":null,"referer":null,"user_agent":null,"user":null,"status":400,"bytes":0,"duration_ms":9,"complete":false,"cut":[]}"#),
        ];
        for &(name, format, client_ip, exchange, want) in cases {
            let mut line = Vec::new();
            Formatter::new(format, client_ip).line(exchange, &mut line);
            let line = String::from_utf8(line).expect("UTF-8");
            assert_eq!(line, format!("{want}\n"), "{name}");
        }
    }

    #[test]
    fn truncated_address_names_a_network() {
        #[rustfmt::skip]
        let cases = [
            ("192.0.2.77",                "192.0.2.0"),
            ("2001:db8:aaaa:bbbb::1",     "2001:db8:aaaa::"),
            ("::1",                       "::"),
        ];
        for (full, want) in cases {
            let peer: IpAddr = full.parse().expect("an address");
            assert_eq!(LogClientIp::Truncated.shown(Some(peer)).expect("one").to_string(), want);
        }
    }

    proptest! {
        #[test]
        fn any_request_is_one_line_that_parses_back(
            bytes in array::uniform4(any_text()),
            (cuts, is_request, status, len, unix_s) in (any::<[bool; 4]>(), any::<bool>(), 100..600u16, any::<u64>(), 0..4_000_000_000u64),
        ) {
            let texts: [RecordedText<'_>; 4] = array_of(|at| RecordedText { bytes: &bytes[at], cut: cuts[at] });
            let [line, host, referer, agent] = texts;
            let version = is_request.then_some(Version::Http11);
            let start = RequestStart { line, host, referer, agent, version, status, unix_ms: unix_s * 1_000, ..nothing() };
            let exchange = Exchange { start, took_ms: 0, content_len: len, is_complete: true };
            let written = |format| {
                let mut to = Vec::new();
                Formatter::new(format, LogClientIp::Full).line(&exchange, &mut to);
                String::from_utf8(to).expect("UTF-8")
            };
            for format in LogFormat::ALL {
                let shown = written(format);
                prop_assert!(shown.ends_with('\n') && shown.matches('\n').count() == 1, "{format}: {shown:?}");
                prop_assert!(!shown.trim_end_matches('\n').chars().any(char::is_control), "{format}: {shown:?}");
                prop_assert!(format == LogFormat::Json || shown.is_ascii(), "{format}: {shown:?}");
            }
            // Log readers split at quotes: there is none within a value.
            let combined = written(LogFormat::Combined);
            let parts: Vec<_> = combined.split('"').collect();
            prop_assert_eq!(parts.len(), 7, "{}", &combined);
            for (shown, text) in [(parts[1], line), (parts[3], referer), (parts[5], agent)] {
                prop_assert_eq!(undone(shown, text.cut), if text.bytes.is_empty() { b"-" } else { text.bytes });
            }
            prop_assert_eq!(parts[2], format!(" {status} {len} "));
            let object: serde_json::Value = serde_json::from_str(&written(LogFormat::Json)).expect("JSON");
            prop_assert_eq!(object.as_object().expect("an object").len(), 15);
            prop_assert_eq!(object["status"].as_u64(), Some(status.into()));
            for (key, text) in [("host", host), ("referer", referer), ("user_agent", agent)] {
                let shown = object[key].as_str().unwrap_or_default();
                prop_assert_eq!(undone(shown, false), text.bytes);
            }
        }
    }

    /// Random bytes, with many that have a meaning in a line.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let meaning =
            prop_oneof![any::<u8>(), prop::sample::select(&b" \"\\\r\n\t\x1b\x7f\xc2\x9b\xffx0-[]{}:,"[..])];
        prop::collection::vec(meaning, 0..60)
    }

    /// Reverses the escapes.
    fn undone(shown: &str, cut: bool) -> Vec<u8> {
        let shown = if cut { shown.strip_suffix("...").expect("a sign that there was more") } else { shown };
        let (mut bytes, mut rest) = (Vec::new(), shown.as_bytes());
        loop {
            rest = match rest {
                [] => return bytes,
                [b'\\', b'\\', behind @ ..] => {
                    bytes.push(b'\\');
                    behind
                }
                [b'\\', b'x', high, low, behind @ ..] => {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).expect("ASCII");
                    bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
                    behind
                }
                [byte, behind @ ..] => {
                    assert_ne!(*byte, b'\\', "{shown}");
                    bytes.push(*byte);
                    behind
                }
            };
        }
    }

    fn exchange() -> Exchange<'static> {
        let start = RequestStart {
            connection: 0,
            client: Some(Ipv4Addr::new(192, 0, 2, 7).into()),
            unix_ms: 1_768_364_481_042,
            version: Some(Version::Http11),
            status: 200,
            line: RecordedText { bytes: b"GET /?q=\" HTTP/1.1", cut: false },
            host: RecordedText { bytes: b"example.net", cut: false },
            agent: RecordedText { bytes: "M\u{f6}zilla".as_bytes(), cut: true },
            ..nothing()
        };
        Exchange { start, took_ms: 3, content_len: 137, is_complete: true }
    }

    fn nothing() -> RequestStart<'static> {
        RequestStart {
            id: ExchangeId { place: 0, generation: 0 },
            connection: 0,
            client: None,
            tls: None,
            site: 0,
            is_sampled: true,
            unix_ms: 0,
            tick: Tick(0),
            version: None,
            status: 400,
            content_len: 0,
            line: RecordedText { bytes: b"\x16\x03", cut: false },
            host: RecordedText::default(),
            referer: RecordedText::default(),
            agent: RecordedText::default(),
            trace_id: None,
            is_trace_sampled: false,
            user: RecordedText::default(),
            request: RecordedText::default(),
            response: RecordedText::default(),
        }
    }
}
