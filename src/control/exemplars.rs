//! Exemplars: for each class of durations, the trace of a request that took so long.
//!
//! ```text
//! log thread ─ exchanges with a sampled trace ─▶ one for each class, the last ─▶ metrics in the format OpenMetrics
//! ```
//!
//! No worker takes part: the log thread has trace and duration of the requests that it logs.

use std::sync::{Mutex, PoisonError};
use tarpon_conn::LATENCY_US;
use tarpon_http::trace_context::TraceId;

/// The trace of a request, and how long its response took.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exemplar {
    /// The id of the trace, as 32 hexadecimal digits.
    pub trace_id: String,
    /// The duration of the response in milliseconds.
    pub took_ms: u64,
    /// The time of the request, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// The last exemplar of each class of durations: by the classes of [`LATENCY_US`], and one more.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<[Option<(TraceId, u64, u64)>; CLASS_COUNT]>);

const CLASS_COUNT: usize = LATENCY_US.len() + 1;

impl Exemplars {
    /// Keeps a request that took so many milliseconds. One below a millisecond is none: the log does not tell in which class it is.
    pub(crate) fn add(&self, trace_id: TraceId, took_ms: u64, unix_ms: u64) {
        if took_ms == 0 {
            return;
        }
        let us = took_ms.saturating_mul(1_000);
        let class = LATENCY_US.iter().position(|&end| us <= end).unwrap_or(LATENCY_US.len());
        let mut classes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        classes[class] = Some((trace_id, took_ms, unix_ms));
    }

    /// Returns the exemplar of each class.
    pub(crate) fn all(&self) -> Vec<Option<Exemplar>> {
        let classes = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let exemplar = |(trace_id, took_ms, unix_ms): (TraceId, u64, u64)| Exemplar {
            trace_id: trace_id.to_string(),
            took_ms,
            unix_ms,
        };
        classes.into_iter().map(|class| class.map(exemplar)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_keeps_its_last_request() {
        let id = |digit: u8| TraceId::from_bytes([digit; 16]).expect("an id");
        let exemplars = Exemplars::default();
        #[rustfmt::skip]
        let cases: &[(u8, u64, Option<usize>)] = &[
            // id  ms         class
            (1,    0,         None),
            (2,    1,         Some(3)),
            (3,    2,         Some(4)),
            (4,    3,         Some(5)),
            (5,    5,         Some(5)),
            (6,    10_000,    Some(15)),
            (7,    10_001,    Some(16)),
            (8,    u64::MAX,  Some(16)),
        ];
        for &(digit, took_ms, class) in cases {
            exemplars.add(id(digit), took_ms, 7);
            let all = exemplars.all();
            assert_eq!(all.len(), CLASS_COUNT);
            let found = all.iter().position(|entry| {
                entry.as_ref().is_some_and(|entry| entry.trace_id == id(digit).to_string())
            });
            assert_eq!(found, class, "{took_ms} ms");
        }
        assert_eq!(exemplars.all().iter().flatten().count(), 5, "the classes 3, 4, 5, 15 and 16");
    }
}
