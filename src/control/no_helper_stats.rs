//! The numbers of helpers in a build without the program: it has no helpers, so no such value can exist.

use super::metrics::Metrics;

/// The numbers that helpers write. There are none.
#[derive(Clone, Debug)]
pub(crate) enum HelperStats {}

impl HelperStats {
    pub(crate) fn add_to(&self, _: &mut Metrics) {
        match *self {}
    }
}
