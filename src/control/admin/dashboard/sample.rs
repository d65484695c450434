//! The numbers of an event: what the page needs of the metrics. It has no client, no query, no path of this machine, and paths of requests only if the
//! server counts them.

use crate::{
    SiteMetrics,
    control::metrics::{Metrics, PathMetrics, ServerState, UpstreamState},
};
use serde::Serialize;
use tarpon_site::Printable;

/// The numbers of a moment. Counters grow from the start of the service; the page makes rates of two events.
#[derive(Debug, Serialize)]
pub(super) struct DashboardSample {
    at_ms: u64,
    version: String,
    engine: String,
    workers: usize,
    state: ServerState,
    up_s: u64,
    open: u64,
    accepted: u64,
    received_len: u64,
    sent_len: u64,
    /// Responses by the class of their status, from 1xx to 5xx.
    responses: [u64; 5],
    latencies: Vec<(u64, u64)>,
    completed: u64,
    handshakes: u64,
    aborted: u64,
    refused: u64,
    unlogged: u64,
    worker_cpu_us: u64,
    cgi: Option<(u64, u64)>,
    sites: Vec<SiteSample>,
    upstreams: Vec<UpstreamSample>,
    certificates: Vec<CertificateSample>,
    /// `None`: paths are not counted.
    paths: Option<PathSamples>,
    /// Rows that have no room in the event.
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct SiteSample {
    name: String,
    is_stale: bool,
    files: u64,
    responses: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct UpstreamSample {
    name: String,
    is_used: bool,
    busy: u64,
    open: u64,
    failed: u64,
    requests: u64,
}

#[derive(Debug, Serialize)]
struct CertificateSample {
    name: String,
    is_failing: bool,
    /// Seconds until the end; negative after it.
    left_s: Option<i64>,
}

/// The paths that are asked for most.
#[derive(Debug, Serialize)]
struct PathSamples {
    one_in: u32,
    samples: u64,
    rows: Vec<PathSampleRow>,
}

#[derive(Debug, Serialize)]
struct PathSampleRow {
    name: String,
    count: u64,
}

/// The sites, upstream servers and certificates in an event: a row of each kind that fits a page. Only so many sites have counters of their own.
const ROW_COUNT_MAX: usize = 64;

/// The characters of a name. A certificate may have many names.
const NAME_LEN_MAX: usize = 200;

impl DashboardSample {
    pub(super) fn of(metrics: &Metrics, at_ms: u64, unix_s: u64) -> DashboardSample {
        let class = |class: usize| {
            let of_class =
                metrics.responses.iter().filter(|responses| usize::from(responses.status / 100) == class + 1);
            of_class.map(|responses| responses.count).sum()
        };
        let site = |(number, site): (usize, &SiteMetrics)| SiteSample {
            name: site_name(number, site),
            is_stale: site.is_stale(),
            files: site.files,
            responses: site.responses.clone(),
        };
        let upstreams = metrics.upstreams.iter().enumerate().map(|(at, server)| {
            // The address is that of the configuration; the page shows the number of the server in its upstream.
            let number =
                metrics.upstreams[..=at].iter().filter(|other| other.upstream == server.upstream).count();
            UpstreamSample {
                name: format!("{} {number}", name(&server.upstream)),
                is_used: server.state == UpstreamState::Up,
                busy: server.in_progress,
                open: server.open,
                failed: server.failed + server.timed_out,
                requests: server.requests,
            }
        });
        let certificates = metrics.certificates.iter().map(|certificate| CertificateSample {
            name: name(&certificate.names.join(", ")),
            is_failing: certificate.failure.is_some(),
            left_s: certificate
                .not_after_unix_s
                .map(|end| end.cast_signed().saturating_sub(unix_s.cast_signed())),
        });
        let paths = metrics.hot_paths.as_ref().map(|paths| PathSamples {
            one_in: paths.one_in,
            samples: paths.samples,
            rows: paths.paths.iter().take(ROW_COUNT_MAX).map(|path| path_row(metrics, path)).collect(),
        });
        let left_out = [metrics.sites.len(), metrics.upstreams.len(), metrics.certificates.len()]
            .map(|count| count.saturating_sub(ROW_COUNT_MAX));
        DashboardSample {
            at_ms,
            version: name(&metrics.version),
            engine: name(&metrics.engine),
            workers: metrics.workers,
            state: metrics.state,
            up_s: unix_s.saturating_sub(metrics.start_unix_s),
            open: metrics.open,
            accepted: metrics.accepted,
            received_len: metrics.received_len,
            sent_len: metrics.sent_len,
            responses: std::array::from_fn(class),
            latencies: metrics.latencies.clone(),
            completed: metrics.completed,
            handshakes: metrics.tls_handshakes.iter().map(|kind| kind.count).sum(),
            aborted: metrics.aborted,
            refused: metrics.refused(),
            unlogged: metrics.log_dropped + metrics.log_lost,
            worker_cpu_us: metrics.worker_cpu_us,
            cgi: metrics.cgi.as_ref().map(|cgi| (cgi.running, cgi.queued)),
            sites: metrics.sites.iter().enumerate().take(ROW_COUNT_MAX).map(site).collect(),
            upstreams: upstreams.take(ROW_COUNT_MAX).collect(),
            certificates: certificates.take(ROW_COUNT_MAX).collect(),
            paths,
            left_out: left_out.iter().sum(),
        }
    }
}

fn path_row(metrics: &Metrics, path: &PathMetrics) -> PathSampleRow {
    // A host only tells something if there are several.
    let site = metrics.sites.get(path.site).filter(|_| metrics.sites.len() > 1);
    let host = site.map_or(String::new(), |site| site_name(path.site, site) + " ");
    let end = if path.is_cut { "…" } else { "" };
    PathSampleRow { name: format!("{host}{}{end}", name(&path.path)), count: path.count }
}

fn site_name(number: usize, site: &SiteMetrics) -> String {
    site.host.as_ref().map_or_else(|| format!("site {}", number + 1), |host| name(host))
}

/// Returns a name without characters that are invisible or change the order of others, and not too long.
fn name(name: &str) -> String {
    let mut name = name.printable().to_string();
    if let Some((end, _)) = name.char_indices().nth(NAME_LEN_MAX) {
        name.truncate(end);
        name.push('…');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CertificateMetrics, Responses, UpstreamMetrics};

    #[test]
    fn sample_has_bounds_and_no_address() {
        let response = |status, count| Responses { status, version: "1.1".to_owned(), count };
        let server = |server: &str| UpstreamMetrics {
            upstream: "app".to_owned(),
            server: server.to_owned(),
            ..Default::default()
        };
        let certificate = |end| CertificateMetrics {
            names: vec!["x".repeat(1000)],
            not_after_unix_s: end,
            ..Default::default()
        };
        let metrics = Metrics {
            responses: vec![response(200, 3), response(206, 4), response(404, 5)],
            sites: vec![SiteMetrics::default(); 100],
            upstreams: vec![server("192.0.2.1:1"), server("192.0.2.2:2")],
            certificates: vec![certificate(Some(90)), certificate(None)],
            start_unix_s: 40,
            ..Metrics::default()
        };
        let sample = DashboardSample::of(&metrics, 7, 100);
        assert_eq!(
            (sample.responses, sample.up_s, sample.left_out),
            ([0, 7, 0, 5, 0], 60, 100 - ROW_COUNT_MAX)
        );
        assert_eq!((sample.sites.len(), &*sample.sites[1].name), (ROW_COUNT_MAX, "site 2"));
        assert_eq!(
            sample.upstreams.iter().map(|server| &*server.name).collect::<Vec<_>>(),
            ["app 1", "app 2"]
        );
        assert_eq!((sample.certificates[0].left_s, sample.certificates[1].left_s), (Some(-10), None));
        assert_eq!(sample.certificates[0].name.chars().count(), NAME_LEN_MAX + 1);
        assert!(
            !serde_json::to_string(&sample).unwrap().contains("192.0.2"),
            "addresses of servers stay here"
        );
    }
}
