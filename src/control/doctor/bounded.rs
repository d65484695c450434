//! Runs calls that may hang, such as name look-ups, on threads of their own, for at most a given time.
//!
//! A thread that hangs is left behind: it ends with the process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

/// Calls `run` for each item, several at a time. Returns the results in the order of the items; `None`: there was none in time.
pub(super) fn run_all<I, R>(
    items: Vec<I>,
    limit: Duration,
    run: impl Fn(&I) -> R + Send + Sync + 'static,
) -> Vec<Option<R>>
where
    I: Send + Sync + 'static,
    R: Send + 'static,
{
    let deadline = Instant::now() + limit;
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let (sender, receiver) = channel();
    let shared = Arc::new((items, AtomicUsize::new(0), run));
    for _ in 0..results.len().min(THREAD_COUNT_MAX) {
        let (shared, sender) = (Arc::clone(&shared), sender.clone());
        let work = move || {
            let (items, next, run) = &*shared;
            while let Some((at, item)) =
                Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, items.get(at)?)))
            {
                // The receiver is gone after the limit.
                if Instant::now() >= deadline || sender.send((at, run(item))).is_err() {
                    return;
                }
            }
        };
        // Without this thread, the others do its work, and without any there is no result.
        let _ = thread::Builder::new().name("doctor".to_owned()).spawn(work);
    }
    drop(sender);
    // Ends once all threads have ended, or at the limit.
    while let Ok((at, result)) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        results[at] = Some(result);
    }
    results
}

/// Look-ups and connections at a time: a configuration may have hundreds of names.
const THREAD_COUNT_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        let results = run_all(items, Duration::from_secs(60), |number| number * 2);
        assert_eq!(results, (0..100).map(|number| Some(number * 2)).collect::<Vec<_>>());
        assert_eq!(run_all(Vec::<u8>::new(), Duration::from_secs(60), |_| ()), []);
    }

    #[test]
    fn call_that_hangs_delays_no_other() {
        // The first call ends once the others have.
        let (sender, receiver) = channel();
        let (sender, receiver) = (Mutex::new(sender), Mutex::new(receiver));
        let run = move |item: &u8| match item {
            0 => (0..2).for_each(|_| receiver.lock().unwrap().recv().unwrap()),
            _ => sender.lock().unwrap().send(()).unwrap(),
        };
        let results = run_all(vec![0, 1, 2], Duration::from_secs(60), run);
        assert_eq!(results, [Some(()); 3]);
    }

    #[test]
    fn call_that_hangs_has_no_result() {
        // Held until the end of the test.
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let hang = Arc::clone(&gate);
        let results = run_all(vec![0], Duration::from_millis(1), move |_| drop(hang.lock()));
        assert_eq!(results, [None]);
        drop(held);
    }
}
