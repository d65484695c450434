//! Takes the place of `packed/` in a build without the feature `compress`.

/// The estimate of a build that compresses nothing: there is no work, and no remaining time.
pub(crate) mod estimate {
    use std::time::Duration;

    /// A kind of work. There is none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum WorkKind {}

    /// The remaining work: none.
    #[derive(Debug)]
    pub(crate) struct Estimate;

    impl Estimate {
        pub(crate) fn new(_: usize) -> Estimate {
            Estimate
        }

        pub(crate) fn expect(&mut self, kind: WorkKind, _: u64) {
            match kind {}
        }

        pub(crate) fn forget(&mut self, kind: WorkKind) {
            match kind {}
        }

        pub(crate) fn begin(&mut self, _: usize, kind: WorkKind, _: u64, _: Duration) {
            match kind {}
        }

        pub(crate) fn end(&mut self, _: usize, _: Duration) {}

        pub(crate) fn share(&self, _: Duration) -> (u64, u64) {
            (0, 0)
        }

        pub(crate) fn shown(&mut self, _: Duration) -> Option<Duration> {
            None
        }
    }
}
