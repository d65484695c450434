//! The live view of a running server: lines of text that fit a terminal.
//!
//! ```text
//! metrics of two moments ─ rates ─▶ lines ─ cut to the width and height ─▶ screen
//! ```
//!
//! Knows nothing of terminals. A name is printable and shortened; the view has no query and no address, and paths of requests only if the server
//! counts them.

use super::{
    messages::{Bytes, Count},
    status::{grouped, uptime},
    tables::shorten,
};
use crate::{Metrics, PathMetrics, ServerState, SiteMetrics, UpstreamState};
use anstyle::{AnsiColor, Style};
use std::{cmp::Reverse, fmt::Write};
use tarpon_site::Printable;

/// The metrics of one moment.
#[derive(Clone, Debug)]
pub(crate) struct TopSample {
    /// A clock that never goes back, in milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) metrics: Metrics,
}

/// The column by which sites are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TopSort {
    /// By requests in a second, the most first.
    #[default]
    Requests,
    /// By errors in a second, the most first.
    Errors,
    /// By files, the most first.
    Files,
    /// By name.
    Name,
}

impl TopSort {
    /// Returns the next order.
    pub(crate) fn next(self) -> TopSort {
        match self {
            TopSort::Requests => TopSort::Errors,
            TopSort::Errors => TopSort::Files,
            TopSort::Files => TopSort::Name,
            TopSort::Name => TopSort::Requests,
        }
    }

    fn name(self) -> &'static str {
        match self {
            TopSort::Requests => "requests",
            TopSort::Errors => "errors",
            TopSort::Files => "files",
            TopSort::Name => "name",
        }
    }
}

/// What the view shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopView {
    /// The last two samples of one service, the newer one last.
    samples: Vec<TopSample>,
    /// Why the server did not answer last time.
    pub(crate) failure: Option<String>,
    pub(crate) sort: TopSort,
    /// The first site that is shown.
    pub(crate) scroll: usize,
    pub(crate) shows_help: bool,
}

/// The size and the colours of the terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopLayout {
    pub(crate) width: usize,
    /// `None`: all lines.
    pub(crate) height: Option<usize>,
    pub(crate) is_coloured: bool,
    /// Whether keys have an effect.
    pub(crate) has_keys: bool,
}

impl TopView {
    /// Adds a sample. Counters that went back belong to another service, whose first sample it is.
    pub(crate) fn add(&mut self, sample: TopSample) {
        self.failure = None;
        if let Some(last) = self.samples.last()
            && (last.metrics.start_unix_s != sample.metrics.start_unix_s
                || last.metrics.accepted > sample.metrics.accepted
                || last.at_ms >= sample.at_ms)
        {
            self.samples.clear();
        }
        if self.samples.len() == 2 {
            self.samples.remove(0);
        }
        self.samples.push(sample);
    }

    /// Returns whether there are rates.
    pub(crate) fn has_rates(&self) -> bool {
        self.samples.len() == 2
    }

    /// Moves the list of sites.
    pub(crate) fn scroll_by(&mut self, by: isize) {
        let count = self.samples.last().map_or(0, |sample| sample.metrics.sites.len());
        self.scroll = self.scroll.saturating_add_signed(by).min(count.saturating_sub(1));
    }

    /// Returns the lines, with their styles. `unix_s`: the current time in seconds since 1970.
    pub(crate) fn lines(&self, unix_s: u64, layout: TopLayout) -> Vec<String> {
        let mut lines = TopLines { lines: Vec::new(), layout };
        if self.shows_help {
            HELP.iter().for_each(|line| lines.add(Style::new(), line));
            return lines.cut();
        }
        match self.samples.last() {
            None => {
                lines.add(BOLD, if self.failure.is_some() { "no server" } else { "waiting for the server" })
            }
            Some(sample) => self.server(sample, unix_s, &mut lines),
        }
        if let Some(failure) = &self.failure {
            let rest = format!("{failure}; trying again");
            lines.wrap(RED, &rest.printable().to_string());
        }
        if let Some(sample) = self.samples.last() {
            self.sites(&sample.metrics, &mut lines);
            hot_paths(&sample.metrics, &mut lines);
            upstreams(&sample.metrics, &mut lines);
            certificates(&sample.metrics, unix_s, &mut lines);
        }
        lines.cut()
    }

    /// Returns how much a counter grew in a second.
    fn rate(&self, value: impl Fn(&Metrics) -> u64) -> Option<f64> {
        let [before, after] = &self.samples[..] else { return None };
        let seconds = (after.at_ms - before.at_ms) as f64 / 1000.0;
        Some(value(&after.metrics).saturating_sub(value(&before.metrics)) as f64 / seconds)
    }

    fn server(&self, TopSample { metrics, .. }: &TopSample, unix_s: u64, lines: &mut TopLines) {
        let state = match metrics.state {
            ServerState::Starting => "starting",
            ServerState::Serving => "serving",
            ServerState::Draining => "draining",
        };
        let up = uptime(unix_s.saturating_sub(metrics.start_unix_s));
        let workers = Count(metrics.workers as u64, "worker");
        let (version, engine) = (metrics.version.printable(), metrics.engine.printable());
        lines.add(BOLD, &format!("tarpon {version}  {state} for {up}  {engine}, {workers}"));
        let rate = |value: &dyn Fn(&Metrics) -> u64| number(self.rate(value));
        let bytes = |value: &dyn Fn(&Metrics) -> u64| match self.rate(value) {
            Some(rate) => format!("{}/s", Bytes(rate as u64)),
            None => "-".to_owned(),
        };
        let busy = self
            .rate(|metrics| metrics.worker_cpu_us)
            .map_or("-".to_owned(), |us| format!("{:.0} %", us / 1e4));
        let unlogged = |metrics: &Metrics| metrics.log_dropped + metrics.log_lost;
        let handshakes = |metrics: &Metrics| metrics.tls_handshakes.iter().map(|kind| kind.count).sum();
        let [p50, p99] = [0.5, 0.99].map(|share| self.percentile(share));
        let rows = [
            ("requests/s", rate(&Metrics::response_count), self.by_class()),
            (
                "connections",
                grouped(metrics.open),
                format!(
                    "open; {} new/s, {} TLS handshakes/s",
                    rate(&|metrics| metrics.accepted),
                    rate(&handshakes)
                ),
            ),
            ("duration", p50, format!("p50; p99 {p99}")),
            (
                "sent",
                bytes(&|metrics| metrics.sent_len),
                format!("received {}", bytes(&|metrics| metrics.received_len)),
            ),
            ("workers", busy, "of one core".to_owned()),
            (
                "aborted/s",
                rate(&|metrics| metrics.aborted),
                format!("refused/s {}, not logged/s {}", rate(&Metrics::refused), rate(&unlogged)),
            ),
        ];
        for (what, value, more) in rows {
            lines.add(Style::new(), &format!("  {what:<12} {value:>12}  {more}"));
        }
        if let Some(cgi) = &metrics.cgi {
            let more = format!("running, {} queued", grouped(cgi.queued));
            lines
                .add(Style::new(), &format!("  {:<12} {:>12}  {more}", "CGI programs", grouped(cgi.running)));
        }
    }

    /// Returns the share of each class among the responses of the last second.
    fn by_class(&self) -> String {
        let count = |class: u16| {
            self.rate(|metrics| {
                let of_class = metrics.responses.iter().filter(|responses| responses.status / 100 == class);
                of_class.map(|responses| responses.count).sum()
            })
        };
        let all = self.rate(Metrics::response_count).unwrap_or_default();
        let shares = (2..=5).filter_map(|class| {
            let count = count(class).filter(|count| *count > 0.0)?;
            Some(format!("{class}xx {:.1}%", 100.0 * count / all))
        });
        shares.collect::<Vec<_>>().join(", ")
    }

    /// Returns the time within which this share of the responses of the last second was sent.
    fn percentile(&self, share: f64) -> String {
        let [before, after] = &self.samples[..] else { return "-".to_owned() };
        let completed = after.metrics.completed.saturating_sub(before.metrics.completed);
        if completed == 0 {
            return "-".to_owned();
        }
        let wanted = (completed as f64 * share).ceil() as u64;
        let earlier = |us: u64| {
            before.metrics.latencies.iter().find(|(bucket, _)| *bucket == us).map_or(0, |(_, count)| *count)
        };
        match after.metrics.latencies.iter().find(|&&(us, count)| count.saturating_sub(earlier(us)) >= wanted)
        {
            Some(&(us, _)) if us < 1_000 => format!("{us} µs"),
            Some(&(us, _)) => format!("{} ms", us as f64 / 1e3),
            None => "over 10 s".to_owned(),
        }
    }

    fn sites(&self, metrics: &Metrics, lines: &mut TopLines) {
        let of = |metrics: &Metrics, number: usize, classes: &[usize]| -> u64 {
            let responses = metrics.sites.get(number).map(|site| &site.responses[..]).unwrap_or_default();
            classes.iter().filter_map(|class| responses.get(class - 2)).sum()
        };
        let rate = |number: usize, classes: &[usize]| self.rate(|metrics| of(metrics, number, classes));
        let mut order: Vec<usize> = (0..metrics.sites.len()).collect();
        let thousandths = |rate: Option<f64>| (rate.unwrap_or_default() * 1e3) as u64;
        match self.sort {
            TopSort::Requests => order.sort_by_key(|&at| Reverse(thousandths(rate(at, &[2, 3, 4, 5])))),
            TopSort::Errors => order.sort_by_key(|&at| Reverse(thousandths(rate(at, &[4, 5])))),
            TopSort::Files => order.sort_by_key(|&at| Reverse(metrics.sites[at].files)),
            TopSort::Name => order.sort_by_key(|&at| site_name(at, &metrics.sites[at])),
        }
        let keys =
            if lines.layout.has_keys { format!(", by {} (s)", self.sort.name()) } else { String::new() };
        lines.add(Style::new(), "");
        let shown = order.iter().skip(self.scroll);
        let is_wide = lines.layout.width >= WIDE;
        let heads = match is_wide {
            true => ["requests/s", "2xx/s", "3xx/s", "4xx/s", "5xx/s", "files"],
            false => ["req/s", "", "", "4xx/s", "5xx/s", ""],
        };
        lines.row(DIM, &format!("site{keys}"), &heads);
        for &at in shown {
            let site = &metrics.sites[at];
            // Only the first sites are counted.
            let rate = |classes: &[usize]| {
                if site.responses.is_empty() { "-".to_owned() } else { number(rate(at, classes)) }
            };
            let cells =
                [rate(&[2, 3, 4, 5]), rate(&[2]), rate(&[3]), rate(&[4]), rate(&[5]), grouped(site.files)];
            let cells: Vec<&str> = cells
                .iter()
                .zip(heads)
                .map(|(cell, head)| if head.is_empty() { "" } else { &**cell })
                .collect();
            let name = site_name(at, site);
            match site.is_stale() {
                true => lines.row(RED, &format!("{name} (stale)"), &cells),
                false => lines.row(Style::new(), &name, &cells),
            }
        }
    }
}

fn site_name(at: usize, site: &SiteMetrics) -> String {
    site.host.as_ref().map_or_else(|| format!("site {}", at + 1), |host| host.printable().to_string())
}

fn hot_paths(metrics: &Metrics, lines: &mut TopLines) {
    let Some(hot_paths) = &metrics.hot_paths else { return };
    lines.add(Style::new(), "");
    let head = format!("path, by share of the last requests (1 in {})", hot_paths.one_in);
    lines.row(DIM, &head, &["", "", "", "", "", "share"]);
    for PathMetrics { site, path, is_cut, count } in &hot_paths.paths {
        // A host only tells something if there are several.
        let host = metrics.sites.get(*site).filter(|_| metrics.sites.len() > 1);
        let host = host.map_or(String::new(), |entry| format!("{} ", site_name(*site, entry)));
        let name = format!("{host}{}{}", path.printable(), if *is_cut { "…" } else { "" });
        let share = 100.0 * *count as f64 / hot_paths.samples.max(1) as f64;
        lines.row(Style::new(), &name, &["", "", "", "", "", &format!("{share:.1} %")]);
    }
}

fn upstreams(metrics: &Metrics, lines: &mut TopLines) {
    if metrics.upstreams.is_empty() {
        return;
    }
    lines.add(Style::new(), "");
    let is_wide = lines.layout.width >= WIDE;
    let heads = match is_wide {
        true => ["", "", "busy", "open", "failed", "requests"],
        false => ["", "", "", "busy", "failed", ""],
    };
    lines.row(DIM, "upstream", &heads);
    for server in &metrics.upstreams {
        // Addresses of servers are those of the configuration; the view shows the name of the upstream and the number of the server.
        let same = metrics.upstreams.iter().filter(|other| other.upstream == server.upstream);
        let number = same.take_while(|other| other.server != server.server).count() + 1;
        let name = format!("{} {number}", server.upstream.printable());
        let [busy, open, failed, requests] =
            [server.in_progress, server.open, server.failed + server.timed_out, server.requests].map(grouped);
        let cells = match is_wide {
            true => ["", "", &busy, &open, &failed, &requests],
            false => ["", "", "", &busy, &failed, ""],
        };
        match server.state {
            UpstreamState::Up => lines.row(Style::new(), &name, &cells),
            _ => lines.row(RED, &format!("{name} (not used)"), &cells),
        }
    }
}

fn certificates(metrics: &Metrics, unix_s: u64, lines: &mut TopLines) {
    if metrics.certificates.is_empty() {
        return;
    }
    lines.add(Style::new(), "");
    lines.row(DIM, "certificate", &["", "", "", "", "", "valid for"]);
    for certificate in &metrics.certificates {
        let (validity, is_good) = match certificate.not_after_unix_s.map(|end| end.checked_sub(unix_s)) {
            Some(Some(left)) => (Count(left / 86_400, "day").to_string(), certificate.failure.is_none()),
            Some(None) => ("expired".to_owned(), false),
            None => ("none yet".to_owned(), false),
        };
        let failing = if certificate.failure.is_some() { " (failing)" } else { "" };
        let name = format!("{}{failing}", certificate.names.join(", ").printable());
        let style = if is_good { Style::new() } else { RED };
        lines.row(style, &name, &["", "", "", "", "", &validity]);
    }
}

/// Formats a rate.
fn number(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => grouped(rate.round() as u64),
    }
}

/// The lines of a view.
struct TopLines {
    lines: Vec<(Style, String)>,
    layout: TopLayout,
}

impl TopLines {
    /// Adds a line, of which the terminal shows the front.
    fn add(&mut self, style: Style, text: &str) {
        self.lines.push((style, text.chars().take(self.layout.width).collect()));
    }

    /// Adds a long text as several lines.
    fn wrap(&mut self, style: Style, text: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > self.layout.width {
                self.add(style, &line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        self.add(style, &line);
    }

    /// Adds a row: a name, and numbers aligned right. A column without a head takes no room.
    fn row(&mut self, style: Style, name: &str, cells: &[&str]) {
        let mut numbers = String::new();
        let cells = cells.iter().skip_while(|cell| cell.is_empty());
        for cell in cells {
            let _ = match self.layout.width >= WIDE {
                true => write!(numbers, "{cell:>9}"),
                // Empty columns of a narrow view are left out.
                false if cell.is_empty() => Ok(()),
                false => write!(numbers, "{cell:>8}"),
            };
        }
        let room = self.layout.width.saturating_sub(numbers.chars().count() + 1);
        let mut name = name.to_owned();
        shorten(&mut name, room);
        self.add(style, &format!("{name:<room$} {numbers}"));
    }

    /// Returns the lines that fit, with their styles.
    fn cut(self) -> Vec<String> {
        let TopLines { mut lines, layout } = self;
        if let Some(height) = layout.height.filter(|height| lines.len() > *height) {
            lines.truncate(height.saturating_sub(1));
            lines.push((DIM, "…".to_owned()));
        }
        let styled = |(style, text): (Style, String)| {
            let text = text.trim_end();
            if layout.is_coloured && !text.is_empty() {
                format!("{style}{text}{style:#}")
            } else {
                text.to_owned()
            }
        };
        lines.into_iter().map(styled).collect()
    }
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default();

/// The width from which a row has all of its columns.
const WIDE: usize = 78;

const HELP: &[&str] = &[
    "tarpon top",
    "",
    "  q, Ctrl-C      quit",
    "  s              sort sites by another column",
    "  up, down       scroll the sites",
    "  ?              close this help",
    "",
    "Rates are those of the last second. `duration` is",
    "the time from the headers of a request to the end",
    "of its response. A stale site is served as it was",
    "before its last read failed.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CertificateMetrics, HotPathMetrics, Responses, SiteReading};

    fn metrics(factor: u64) -> Metrics {
        let site = |host: &str, responses: [u64; 4], files| SiteMetrics {
            host: Some(host.to_owned()).filter(|host| !host.is_empty()),
            files,
            responses: responses.map(|count| count * factor).to_vec(),
            ..SiteMetrics::default()
        };
        let mut stale = site("old.example.org", [0; 4], 7);
        stale.reading = Some(SiteReading { failure: Some(Default::default()), ..SiteReading::default() });
        let response = |status, count| Responses { status, version: "1.1".to_owned(), count: count * factor };
        Metrics {
            version: "0.1.0".to_owned(),
            engine: "epoll".to_owned(),
            workers: 2,
            start_unix_s: 1_000,
            state: ServerState::Serving,
            accepted: 100 * factor,
            open: 1_234,
            received_len: 1024 * factor,
            sent_len: (3 << 20) * factor,
            responses: vec![response(200, 9_700), response(404, 300)],
            latencies: vec![(100, 9_000 * factor), (2_500, 10_000 * factor)],
            completed: 10_000 * factor,
            worker_cpu_us: 1_500_000 * factor,
            sites: vec![
                site("example.org", [9_000, 0, 10, 0], 120),
                site("a\u{1b}[31mb", [700, 0, 290, 3], 3),
                stale,
            ],
            certificates: vec![CertificateMetrics {
                names: vec!["example.org".to_owned()],
                not_after_unix_s: Some(1_000 + 86_400 * 62),
                ..CertificateMetrics::default()
            }],
            ..Metrics::default()
        }
    }

    fn view() -> TopView {
        let mut view = TopView::default();
        view.add(TopSample { at_ms: 0, metrics: metrics(1) });
        view.add(TopSample { at_ms: 2_000, metrics: metrics(2) });
        view
    }

    fn shown(view: &TopView, width: usize, height: Option<usize>) -> String {
        let layout = TopLayout { width, height, is_coloured: false, has_keys: true };
        view.lines(1_061, layout).join("\n")
    }

    #[test]
    fn wide_view_has_all_columns() {
        let text = shown(&view(), 80, None);
        let want = [
            "tarpon 0.1.0  serving for 1m 1s  epoll, 2 workers",
            "  requests/s          5,000  2xx 97.0%, 4xx 3.0%",
            "  connections         1,234  open; 50 new/s, 0 TLS handshakes/s",
            "  duration           100 µs  p50; p99 2.5 ms",
            "  sent            1.5 MiB/s  received 512 bytes/s",
            "  workers              75 %  of one core",
            "  aborted/s               0  refused/s 0, not logged/s 0",
            "",
        ];
        assert_eq!(text.lines().take(want.len()).collect::<Vec<_>>(), want);
        assert!(text.contains("\nsite, by requests (s) "), "{text}");
        let row = |start: &str| {
            text.lines()
                .find(|line| line.starts_with(start))
                .unwrap_or_else(|| panic!("{start}: {text}"))
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(row("example.org "), "example.org 4,505 4,500 0 5.0 0 120");
        assert_eq!(row("a\\x1b"), "a\\x1b[31mb 497 350 0 145 1.5 3");
        assert_eq!(row("old."), "old.example.org (stale) 0 0 0 0 0 7");
        assert!(text.contains("valid for") && text.contains("61 days"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn path_controls_no_terminal_and_keeps_its_order() {
        #[rustfmt::skip]
        let cases: &[(&str, &str)] = &[
            // path                                 shown
            ("/index.html",                         "/index.html"),
            ("/\u{1b}[2J\u{1b}]0;owned\u{7}",       r"/\x1b[2J\x1b]0;owned\x07"),
            ("/\u{9b}31m",                          r"/\u{9b}31m"),
            ("/a\r\nb\tc\0",                        r"/a\r\nb\tc\x00"),
            ("/\u{202e}gpj.exe",                    r"/\u{202e}gpj.exe"),
            ("/\u{fffd}%ff",                        "/\u{fffd}%ff"),
            ("/<script>alert(1)</script>",          "/<script>alert(1)</script>"),
            ("/%1b%5b2J%3Cb%3E",                    "/%1b%5b2J%3Cb%3E"),
        ];
        let paths = cases.iter().map(|(path, _)| PathMetrics {
            path: (*path).to_owned(),
            count: 5,
            ..PathMetrics::default()
        });
        let long = PathMetrics { site: 1, path: "x".repeat(128), is_cut: true, count: 1 };
        let hot_paths = HotPathMetrics { one_in: 64, samples: 40, paths: paths.chain([long]).collect() };
        let mut view = TopView::default();
        view.add(TopSample { at_ms: 0, metrics: Metrics { hot_paths: Some(hot_paths), ..metrics(1) } });
        let text = shown(&view, 80, None);
        for (path, want) in cases {
            let want = format!("example.org {want} ");
            let row = text
                .lines()
                .find(|line| line.starts_with(&want))
                .unwrap_or_else(|| panic!("{path:?}: {text}"));
            assert!(row.ends_with("12.5 %"), "{row}");
        }
        assert!(
            text.contains("path, by share of the last requests (1 in 64)")
                && text.contains("a\\x1b[31mb xxx"),
            "{text}"
        );
        for width in [46, 80] {
            let text = shown(&view, width, None);
            assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
        assert!(!shown(&self::view(), 80, None).contains("path, by"), "not counted, not shown");
    }

    #[test]
    fn narrow_view_keeps_names_and_errors() {
        let text = shown(&view(), 46, None);
        assert!(text.lines().all(|line| line.chars().count() <= 46), "{text}");
        let row = text.lines().find(|line| line.starts_with("example.org")).expect("a row");
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["example.org", "4,505", "5.0", "0"]);
        // A terminal that is hardly one.
        for width in 0..46 {
            let text = shown(&view(), width, Some(3));
            assert!(
                text.lines().count() <= 3 && text.lines().all(|line| line.chars().count() <= width.max(1)),
                "{width}: {text}"
            );
        }
    }

    #[test]
    fn colours_add_nothing_but_colours() {
        let mut view = view();
        view.failure = Some("cannot reach the server".to_owned());
        for width in [46, 80] {
            let layout = TopLayout { width, height: Some(40), is_coloured: true, has_keys: true };
            let coloured = view.lines(1_061, layout).join("\n");
            assert!(coloured.contains("\u{1b}[1m") && coloured.contains("\u{1b}[31m"), "{coloured}");
            assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), shown(&view, width, Some(40)));
            // The name of a site brings no escape of its own.
            assert!(!coloured.contains("\u{1b}[31mb"), "{coloured}");
        }
    }

    #[test]
    fn sites_are_sorted_and_scrolled() {
        let mut view = view();
        let names = |view: &TopView| -> Vec<String> {
            let text = shown(view, 80, None);
            let rows = text
                .lines()
                .skip_while(|line| !line.starts_with("site"))
                .skip(1)
                .take_while(|line| !line.is_empty());
            rows.map(|line| line.split_whitespace().next().unwrap_or_default().to_owned()).collect()
        };
        #[rustfmt::skip]
        let cases: &[(TopSort, [&str; 3])] = &[
            (TopSort::Requests, ["example.org", "a\\x1b[31mb", "old.example.org"]),
            (TopSort::Errors,   ["a\\x1b[31mb", "example.org", "old.example.org"]),
            (TopSort::Files,    ["example.org", "old.example.org", "a\\x1b[31mb"]),
            (TopSort::Name,     ["a\\x1b[31mb", "example.org", "old.example.org"]),
        ];
        for (sort, want) in cases {
            assert_eq!((view.sort, names(&view)), (*sort, want.map(str::to_owned).to_vec()));
            view.sort = view.sort.next();
        }
        view.scroll_by(5);
        assert_eq!(names(&view), ["old.example.org"]);
        view.scroll_by(-9);
        assert_eq!(names(&view).len(), 3);
    }

    #[test]
    fn another_service_begins_without_rates() {
        let mut view = view();
        assert!(view.has_rates());
        view.add(TopSample { at_ms: 3_000, metrics: Metrics { start_unix_s: 2_000, ..metrics(1) } });
        assert!(!view.has_rates() && shown(&view, 80, None).contains("requests/s              -"));
        assert_eq!(shown(&TopView::default(), 80, None), "waiting for the server");
    }
}
