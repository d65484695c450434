//! State that all connections of one worker share.

use super::{
    clock::{SteadyClock, thread_cpu_us},
    kernel_tls::KernelSuites,
    served_site::ServedSite,
};
use crate::{data::log_ring::RingProducer, site::Site, sys::shared::SharedRow};
use tarpon_conn::{
    BufId, ConnResources, Counters, HotPaths, ImageId, PathSampling, PathTable, Pipes, Pool, RECORDS_LEN,
    Records, ResponsePrefixes, SectionBuffer, Sites, Tick,
};

/// What was counted of a worker's CPU time.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuCount {
    /// In microseconds.
    pub(super) counted_us: u64,
    pub(super) next_at: Tick,
}

/// How often the CPU time is counted, in milliseconds: it takes a system call.
const CPU_COUNT_MS: u64 = 1_000;

/// State that all connections of one worker share.
pub(crate) struct WorkerContext {
    pub(crate) sites: Sites,
    pub(crate) pool: Pool,
    pub(crate) prefixes: ResponsePrefixes,
    pub(crate) now: Tick,
    /// Sites by image index. `None`: the image was retired.
    pub(super) served_sites: Vec<Option<ServedSite>>,
    /// At least one site ever served has content in files: its pages may be missing from memory, and the files may be truncated.
    pub(super) any_on_disk: bool,
    /// Receive buffer. A connection that does not use all received bytes keeps this buffer as its inbox.
    pub(crate) scratch: BufId,
    /// Small responses are copied together here.
    pub(crate) copy: Box<[u8]>,
    pub(crate) pipes: Pipes,
    pub(super) sections: SectionBuffer,
    pub(super) clock: SteadyClock,
    /// What the kernel may seal and open of TLS.
    pub(super) kernel_suites: KernelSuites,
    /// The worker runs handshakes itself.
    pub(super) runs_handshakes: bool,
    /// The worker has no loader: it sends without a check of residency, and blocks on disk reads.
    pub(super) blocks_on_disk: bool,
    pub(super) counters: SharedRow<Counters>,
    /// The most frequent paths, and the sampling of requests.
    pub(super) hot_paths: Option<(SharedRow<PathTable>, PathSampling)>,
    pub(super) cpu: CpuCount,
    pub(super) records: Records,
    /// The ring that takes the records.
    pub(super) producer: Option<RingProducer>,
}

impl WorkerContext {
    /// Returns the resources that a connection uses.
    #[inline]
    pub(crate) fn conn_resources(&mut self) -> ConnResources<'_> {
        ConnResources {
            sites: &mut self.sites,
            pool: &mut self.pool,
            prefixes: &self.prefixes,
            now: self.now,
            now_us: self.clock.now_us(),
            counters: &self.counters,
            records: &mut self.records,
            pipes: &mut self.pipes,
            sections: &mut self.sections,
            hot_paths: self.hot_paths.as_mut().map(|(table, sampling)| HotPaths { table, sampling }),
        }
    }

    /// Counts the CPU time of this thread, once a second at most.
    pub(super) fn count_cpu_time(&mut self) {
        if self.now >= self.cpu.next_at {
            self.cpu.next_at = self.now.after(CPU_COUNT_MS);
            self.count_cpu_time_now();
        }
    }

    /// Counts the CPU time of this thread since it was counted last.
    pub(super) fn count_cpu_time_now(&mut self) {
        let now_us = thread_cpu_us();
        self.counters.cpu_us.add(now_us.saturating_sub(self.cpu.counted_us));
        self.cpu.counted_us = now_us;
    }

    /// Pushes the collected records to the log ring.
    #[inline]
    pub(super) fn flush_records(&mut self) {
        if let Some(producer) = &mut self.producer
            && !self.records.bytes().is_empty()
        {
            producer.push_records(&mut self.records, &self.counters);
        }
    }

    /// Flushes the records when their buffer is half full: one more drive could fill the other half.
    #[inline]
    pub(super) fn flush_records_if_half_full(&mut self) {
        if self.records.bytes().len() > RECORDS_LEN / 2 {
            self.flush_records();
        }
    }

    /// Returns the site of an image.
    #[inline]
    pub(crate) fn site(&self, image: ImageId) -> &Site {
        &self.served(image).site
    }

    #[inline]
    pub(super) fn served(&self, image: ImageId) -> &ServedSite {
        self.served_sites[image.index()].as_ref().expect("a site outlives the spans that name its image")
    }
}
