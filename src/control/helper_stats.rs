//! What a service knows beside the counters of its workers, from memory that all its processes share: helpers and the builder write it.

use super::{
    cgi::stats::CgiStats,
    metrics::{CertificateMetrics, Metrics},
    site_states::SiteStates,
    upstreams::stats::UpstreamStats,
};
use crate::data::acme_table::AcmeTable;
use std::sync::Arc;

/// The numbers and states that helpers and the builder write.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelperStats {
    pub(crate) acme: Option<Arc<AcmeTable>>,
    pub(crate) cgi: Option<Arc<CgiStats>>,
    pub(crate) upstreams: Option<UpstreamStats>,
    /// What the builder knows of the sites.
    pub(crate) states: Option<Arc<SiteStates>>,
}

impl HelperStats {
    /// Adds them to the metrics of a server.
    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let certificate = |state: String| serde_json::from_str(&state).ok();
        let HelperStats { acme, cgi, upstreams, states } = self;
        metrics.certificates = acme.iter().flat_map(|acme| acme.states()).filter_map(certificate).collect();
        metrics.cgi = cgi.as_ref().map(|cgi| cgi.metrics());
        metrics.upstreams = upstreams.as_ref().map(UpstreamStats::metrics).unwrap_or_default();
        for (number, site) in metrics.sites.iter_mut().enumerate() {
            site.reading = states.as_ref().and_then(|states| states.get(number));
        }
    }
}

impl CertificateMetrics {
    /// Returns the state as JSON, with the first names only if all do not fit.
    pub(crate) fn shortened(&self) -> String {
        let mut shortened = self.clone();
        shortened.names.truncate(SHOWN_NAME_COUNT_MAX);
        serde_json::to_string(&shortened).unwrap_or_default()
    }
}

/// Names of a certificate that status and metrics show.
const SHOWN_NAME_COUNT_MAX: usize = 4;
