//! Runs jobs on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs all jobs, with a thread for each worker; the calling thread is one of them. A worker is state of one thread. Returns the results in
/// the order of the jobs. After an error, no thread begins another job.
pub(crate) fn run_jobs<J: Sync, W: Send, R: Send, E: Send>(
    workers: &mut [W],
    jobs: &[J],
    run: impl Fn(&mut W, &J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let failed = Mutex::new(None);
    let work = |worker: &mut W| {
        while let Some((number, job)) = next_job(&next, jobs) {
            match run(worker, job) {
                Ok(result) => done.lock().expect("no worker panics here").push((number, result)),
                Err(error) => {
                    next.store(jobs.len(), Ordering::Relaxed);
                    failed.lock().expect("no worker panics here").get_or_insert(error);
                }
            }
        }
    };
    let (own, others) = workers.split_first_mut().expect("there is at least one worker");
    thread::scope(|scope| {
        for other in others {
            scope.spawn(|| work(other));
        }
        work(own);
    });
    if let Some(error) = failed.into_inner().expect("no worker panics here") {
        return Err(error);
    }
    let mut done = done.into_inner().expect("no worker panics here");
    done.sort_unstable_by_key(|&(number, _)| number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

fn next_job<'j, J>(next: &AtomicUsize, jobs: &'j [J]) -> Option<(usize, &'j J)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(number).map(|job| (number, job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_jobs_and_an_error_stops_all() {
        let jobs: Vec<usize> = (0..1000).collect();
        for count in [1, 3] {
            let mut workers = vec![0; count];
            let done = run_jobs(&mut workers, &jobs, |worker, job| {
                *worker += 1;
                Ok::<_, ()>(job * 2)
            });
            assert_eq!(done, Ok(jobs.iter().map(|job| job * 2).collect()));
            assert_eq!(workers.iter().sum::<usize>(), jobs.len());
            let mut workers = vec![0; count];
            let failed = run_jobs(&mut workers, &jobs, |worker, &job| {
                *worker += 1;
                if job == 10 { Err("ten") } else { Ok(()) }
            });
            assert_eq!(failed, Err("ten"));
            assert!(count > 1 || workers == [11], "{workers:?}");
        }
    }
}
