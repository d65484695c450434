//! TLS in a build without the feature `tls`: no listener can have it.

use crate::base::tls_config::TlsPolicyId;
use std::sync::Arc;
use tarpon_conn::TlsServerConfig;

/// The TLS of listeners. There is none.
#[derive(Clone, Debug)]
pub(crate) enum TlsConfig {}

impl TlsConfig {
    pub(crate) fn server(&self) -> &Arc<TlsServerConfig> {
        match *self {}
    }

    pub(crate) fn policy(&self) -> TlsPolicyId {
        match *self {}
    }
}

/// Returns the name of a cipher suite. None is known.
pub(crate) fn suite_name(_: u16) -> Option<&'static str> {
    None
}
