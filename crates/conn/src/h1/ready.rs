//! The usual exchange, in one function: a whole file as it was packed, to a client that stays.
//!
//! ```text
//! input ─ parse ─▶ path ─ look up ─▶ ready response ─▶ outbox
//!           └────────┴───────────────────┴ anything else: exchange.rs
//! ```
//!
//! It changes nothing until all is decided, and does what [`begin`](Http1::begin) would do: a property compares the two.

use super::{Blocked, Ending, Http1, Http1Phase, emit};
use crate::{
    BufRange, ConnResources, plan,
    response_prefix::Persistence,
    sites::SiteId,
    span::{Outbox, Span},
};
use tarpon_http::{
    FieldName, Method,
    fields::Fields,
    head::{self, UsualHead, Version},
    persist,
    status::Status,
};
use tarpon_site::ReadyResponse;

impl Http1 {
    /// Answers the request at the front of `input` if it and its response are usual. Returns the length of its head. `None`: nothing has
    /// changed.
    #[inline(never)]
    pub(super) fn answer_ready(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
    ) -> Option<usize> {
        let is_usual = self.has_only_site
            && matches!(self.phase, Http1Phase::Head)
            && self.incomplete_len == 0
            && self.blocked == Blocked::No
            && self.ending == Ending::No
            && out.has_room(emit::USUAL_SPAN_COUNT)
            && !cx.records.is_on()
            && cx.hot_paths.is_none();
        if !is_usual {
            return None;
        }
        let site = SiteId::FIRST;
        let request_count = self.request_count + 1;
        if request_count >= cx.sites.limits(site).keepalive_requests.get() {
            return None;
        }

        let mut fields = Fields::EMPTY;
        let (bytes, len_max) = (cx.pool.bytes(input), cx.pool.head_len_max());
        let UsualHead { method, path, len } = head::parse_usual(&mut fields, len_max, bytes)?;
        let is_read = fields.has_at_most([FieldName::Host, FieldName::Connection, FieldName::AcceptEncoding]);
        if !is_read || !persist::persists(Version::Http11, &fields) {
            return None;
        }

        if self.has_path_limits
            && let Some(limits) = cx.sites.client_limits()
            && limits.limits.apply_to_file(site, path)
        {
            return None;
        }
        let (id, image) = cx.sites.current(site);
        let record = image.find_record(path).ok()??;
        let ReadyResponse { fields, content } = plan::ready(&fields, record, image)?;
        // An earlier response does not wait until these are in memory.
        if !out.is_empty() {
            image.check_resident(fields.text).ok()?;
        }
        let rest = emit::joined(fields.text, (method != Method::Head).then_some(content))?;

        if out.is_empty() {
            self.deadline = cx.now.after(cx.sites.limits(site).send_ms);
        }
        self.receive_by = None;
        self.site = site;
        self.request_count = request_count;
        out.push(cx.sites, Span::Prefix(cx.prefixes.prefix(Status::Ok, Persistence::Persist)));
        out.push(cx.sites, emit::site_span(id, rest));
        self.queued(cx, Status::Ok, Some(Version::Http11));
        Some(len)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the ban is for the core, not for its tests")]
mod tests {
    use super::*;
    use crate::{
        AcceptedClient, AddressList, ClientLimits, Counters, Limits, PathLimits, Pipes, Pool,
        RATE_WORD_COUNT, RateTable, Records, ResponsePrefixes, SectionBuffer, SitePathLimits, Sites, Tick,
    };
    use std::{
        fs,
        hash::RandomState,
        io::Cursor,
        iter,
        sync::{Arc, atomic::AtomicU64},
    };
    use tarpon_pack::{BuildCache, PackOptions, pack_dir};
    use tarpon_site::Image;

    #[test]
    fn usual_requests_are_answered_at_once() {
        let browser = "Connection: keep-alive\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n";
        #[rustfmt::skip]
        let cases: &[(&str, &str, &str, bool)] = &[
            // what it shows            target        fields after the target                        ready
            ("short",                   "/",          "Host: a\r\n",                                 true),
            ("name in lower case",      "/",          "host: a\r\n",                                 true),
            ("port",                    "/",          "Host: 127.0.0.1:8080\r\n",                    true),
            ("long host",               "/",          "Host: a-long-name.of-a-site.example.org\r\n", true),
            ("query",                   "/?a=b",      "Host: a\r\n",                                 true),
            ("browser",                 "/long",      &format!("Host: a\r\n{browser}"),              true),
            ("no coding",               "/long",      "Host: a\r\n",                                 true),
            ("Host is not first",       "/",          "Accept: */*\r\nHost: a\r\n",                  false),
            ("two Host fields",         "/",          "Host: a\r\nHost: a\r\n",                      false),
            ("no host name",            "/",          "Host: :80\r\n",                               false),
            ("port is no number",       "/",          "Host: a:b\r\n",                               false),
            ("SP after the host",       "/",          "Host: a \r\n",                                false),
            ("path to normalize",       "/%6cong",    "Host: a\r\n",                                 false),
            ("nothing there",           "/none",      "Host: a\r\n",                                 false),
            ("a redirect",              "/dir",       "Host: a\r\n",                                 false),
            ("precondition",            "/",          "Host: a\r\nIf-None-Match: *\r\n",             false),
            ("range",                   "/",          "Host: a\r\nRange: bytes=0-0\r\n",             false),
            ("content",                 "/",          "Host: a\r\nContent-Length: 0\r\n",            false),
            ("expectation",             "/",          "Host: a\r\nExpect: 100-continue\r\n",         false),
            ("last request",            "/",          "Host: a\r\nConnection: close\r\n",            false),
        ];
        let mut site = OneSite::new();
        for &(name, target, fields, is_ready) in cases {
            for method in ["GET", "HEAD"] {
                let text = format!("{method} {target} HTTP/1.1\r\n{fields}\r\n");
                // The first response with a variant needs a check.
                site.answer(&text, true);
                assert_eq!(site.answer(&text, false), is_ready.then_some(text.len()), "{name}: {method}");
            }
        }
        for other in [
            // Its content lies beside the image.
            "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n",
        ] {
            assert_eq!(site.answer(other, false), None, "{other}");
        }
    }

    #[test]
    fn paths_outside_of_limits_are_answered_at_once() {
        let list = AddressList::new(&[], &["all".parse().expect("an entry")]);
        let limits = PathLimits { addresses: Some(Arc::new(list)), ..PathLimits::default() };
        let table = || {
            let words: Vec<_> = iter::repeat_with(AtomicU64::default).take(RATE_WORD_COUNT).collect();
            RateTable::new(words, RandomState::new())
        };
        let of_site = |prefix: Option<&str>| SitePathLimits {
            prefixes: prefix
                .iter()
                .map(|prefix| (prefix.parse().expect("a prefix"), limits.clone()))
                .collect(),
            rest: if prefix.is_none() { limits.clone() } else { PathLimits::default() },
            ..SitePathLimits::default()
        };
        for (prefix, path, is_ready) in [
            (Some("/dir"), "/", true),
            (Some("/dir"), "/long", true),
            (Some("/dir"), "/dir/", false),
            (Some("/dir"), "/%64ir/", false),
            (Some("/dir"), "//dir/", false),
            (Some("/lon"), "/long", true),
            (Some("/long"), "/long", false),
            (None, "/", false),
        ] {
            let mut site = OneSite::new();
            let limits = ClientLimits {
                rates: table(),
                sites: vec![of_site(prefix)],
                passwords: vec![],
                report: |_| (),
            };
            site.sites.set_client_limits(Arc::new(limits), 0);
            let text = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            // The first response with a variant needs a check.
            site.answer(&text, true);
            assert_eq!(site.answer(&text, false), is_ready.then_some(text.len()), "{prefix:?}: {path}");
        }
    }

    /// A worker with one site.
    struct OneSite {
        sites: Sites,
        pool: Pool,
    }

    impl OneSite {
        fn new() -> OneSite {
            let dir = tempfile::tempdir().expect("a directory");
            let write = |name: &str, len: usize| fs::write(dir.path().join(name), "a".repeat(len));
            fs::create_dir(dir.path().join("dir")).expect("a directory");
            for (name, len) in [("index.html", 5), ("long", 2_000), ("large", 100_000), ("dir/index.html", 9)]
            {
                write(name, len).expect("a file");
            }
            let (mut out, options) = (Cursor::new(Vec::new()), PackOptions::new(784_111_777));
            pack_dir(dir.path(), &mut out, &options, &mut BuildCache::default()).expect("a site");
            let image = Image::new(out.into_inner().into()).expect("an image");
            OneSite { sites: Sites::new(image, Limits::default()), pool: Pool::new(4) }
        }

        /// Answers a request in steps, or at once if that is possible. Returns the length of its head.
        fn answer(&mut self, text: &str, in_steps: bool) -> Option<usize> {
            let (counters, mut records, mut pipes) = (Counters::default(), Records::off(), Pipes::default());
            let prefixes = ResponsePrefixes::new(784_111_777);
            let mut cx = ConnResources {
                sites: &mut self.sites,
                pool: &mut self.pool,
                prefixes: &prefixes,
                now: Tick(0),
                now_us: 0,
                counters: &counters,
                records: &mut records,
                pipes: &mut pipes,
                sections: &mut SectionBuffer::default(),
                hot_paths: None,
            };
            let (mut http, mut out) = (Http1::new(&cx, AcceptedClient::default()), Outbox::new());
            let buf = cx.pool.take().expect("a buffer");
            cx.pool.buf_mut(buf)[..text.len()].copy_from_slice(text.as_bytes());
            let input = BufRange { buf, at: 0, len: text.len() as u32 };
            let len = match in_steps {
                true => Some(http.begin(&mut cx, &mut out, input)),
                false => http.answer_ready(&mut cx, &mut out, input),
            };
            out.clear(cx.sites, cx.pool);
            cx.pool.release(buf);
            len
        }
    }
}
