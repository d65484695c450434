//! How many descriptors the sites may take in a process.
//!
//! ```text
//! builder ── a version ─▶ supervisor ── a version ─▶ server, or master ── a version ─▶ worker processes
//! ```
//!
//! A version has a descriptor for each large file, and one for its image or its archive. Each process has a limit of its own.
//!
//! | process | descriptors that it holds for sites |
//! |---|---|
//! | builder | one version at a time, from its build until it is sent; for each of two builds, up to a quarter of a version for background compression |
//! | supervisor | the current and the kept versions of all sites, and an arriving version |
//! | server, master, worker process | the same, and older versions as long as a response sends one |
//! | aux process, helpers | none |
//! | embedding program | the current and the kept versions, and a version that is built anew |
//!
//! A process that receives a version shares each file that it holds already (`SharedFiles` of the processes), packet by packet. So a new version costs the
//! files that have changed, and those of one packet for a moment. An embedding program builds its sites itself, and shares no files: there each
//! version counts in full.
//!
//! | share of the limit on open files | for |
//! |---|---|
//! | 9 sixteenths | the current versions of all sites; a quarter for a site that is built without sharing |
//! | 2 sixteenths | the earlier versions, each counted in full |
//! | 12 sixteenths | all versions and the arriving one, each file counted once |
//! | 4 sixteenths, the rest | connections, listeners and all else |

use rustix::process::{Resource, getrlimit};

/// The descriptors that sites may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptorBudget {
    /// For the current versions of all sites together.
    pub(crate) current_max: usize,
    /// For the earlier versions of all sites together.
    pub(crate) kept_max: usize,
    /// For all versions, with those that arrive.
    pub(crate) total_max: usize,
    /// For one version of a site that shares no files with the version before.
    pub(crate) unshared_max: usize,
}

impl DescriptorBudget {
    /// Returns the budget of this process.
    pub(crate) fn of_process() -> DescriptorBudget {
        DescriptorBudget::of_limit(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of_limit(limit: u64) -> DescriptorBudget {
        let sixteenths = |count| usize::try_from(limit / 16).unwrap_or(usize::MAX / 16) * count;
        DescriptorBudget {
            current_max: sixteenths(9),
            kept_max: sixteenths(2),
            total_max: sixteenths(12),
            unshared_max: sixteenths(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_versions_may_take_half_of_the_limit_and_connections_keep_a_quarter() {
        for limit in [64, 256, 1_024, 20_000, 1 << 20, u64::MAX] {
            let DescriptorBudget { current_max, kept_max, total_max, unshared_max } =
                DescriptorBudget::of_limit(limit);
            let limit = usize::try_from(limit).unwrap();
            assert!(current_max > limit / 2, "{limit}: the image needs one, too");
            assert!(current_max + kept_max < total_max, "{limit}: a version arrives");
            assert!(2 * unshared_max + kept_max < total_max, "{limit}: a version is built anew");
            assert!(total_max <= limit - limit / 4, "{limit}");
        }
    }
}
