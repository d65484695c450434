//! Reads what the checks of the system judge: files of `/proc` and `/sys`, limits, and probes of the kernel. The only place that does.

use crate::{
    base::{
        engine::Engine,
        error::reason,
        settings::{KernelTlsUse, Settings},
        site_config::SiteConfig,
    },
    control::supervisor::Service,
    data::engine::{RingFeatures, ring_features},
    sys::{cores, kernel_tls::KernelSuites},
};
use rustix::process::{Resource, getrlimit};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, ErrorKind, Read},
};
use tarpon_conn::{KernelCipher, KernelSuite};

/// The facts.
#[derive(Debug)]
pub(crate) struct SystemFacts {
    /// The text of each file, or why it cannot be read.
    pub(super) files: BTreeMap<String, Result<String, String>>,
    /// The soft and the hard limit of open files. `None`: there is none.
    pub(super) open_files: ResourceLimit,
    /// The limits of locked memory, in bytes.
    pub(super) locked_memory: ResourceLimit,
    /// This process runs as root.
    pub(super) is_root: bool,
    /// The cores that this process may run on.
    pub(super) cores: Result<Vec<usize>, String>,
    /// Why this system does not offer the engine `io_uring`. `None`: it does.
    pub(super) ring_refusal: Option<String>,
    /// What a ring of this system can do.
    pub(super) ring_features: Result<RingFeatures, String>,
    /// The versions and ciphers of TLS in the kernel.
    pub(super) kernel_suites: Vec<String>,
    /// The version of Landlock.
    pub(super) landlock: Result<i32, String>,
}

/// Soft and hard limit.
pub(crate) type ResourceLimit = (Option<u64>, Option<u64>);

/// The demands of a server on the system.
#[derive(Clone, Debug)]
pub(crate) struct SystemPlan {
    pub(super) engine: Engine,
    pub(super) worker_count: usize,
    /// Each worker has a core of its own.
    pub(super) is_pinned: bool,
    /// Sites that are directories.
    pub(super) watched_count: usize,
    pub(super) has_upstreams: bool,
    /// Listeners have TLS, and the kernel may seal it. `None`: there is no configuration.
    pub(super) wants_kernel_tls: Option<bool>,
    pub(super) is_sandboxed: bool,
}

impl SystemPlan {
    /// Returns the plan of a server with these settings.
    pub(crate) fn new(settings: &Settings) -> SystemPlan {
        SystemPlan {
            engine: settings.engine,
            worker_count: settings.workers().get(),
            is_pinned: settings.cpu_affinity,
            watched_count: 1,
            has_upstreams: false,
            wants_kernel_tls: None,
            is_sandboxed: true,
        }
    }

    /// Sets what a configuration adds.
    #[must_use]
    pub(crate) fn with_service(self, service: &Service) -> SystemPlan {
        let is_directory = |site: &&SiteConfig| site.source.path.is_dir();
        let uses_kernel_tls = service.settings.kernel_tls != KernelTlsUse::Off;
        SystemPlan {
            watched_count: service.sites.iter().filter(is_directory).count(),
            has_upstreams: !service.upstreams.is_empty(),
            wants_kernel_tls: Some(!service.tls.listeners.is_empty() && uses_kernel_tls),
            is_sandboxed: service.sandbox,
            ..self
        }
    }
}

/// The limits of this process, read before it raises them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessLimits {
    open_files: ResourceLimit,
    locked_memory: ResourceLimit,
}

impl ProcessLimits {
    pub(crate) fn read() -> ProcessLimits {
        let of = |resource| {
            let limit = getrlimit(resource);
            (limit.current, limit.maximum)
        };
        ProcessLimits { open_files: of(Resource::Nofile), locked_memory: of(Resource::Memlock) }
    }
}

impl SystemFacts {
    /// Reads all facts. Starts threads, so no process may be forked any more.
    pub(crate) fn read(limits: ProcessLimits) -> SystemFacts {
        let cores = cores::allowed().map_err(|error| reason(&error));
        let of_cores = cores.iter().flatten().flat_map(|core| {
            let dir = format!("/sys/devices/system/cpu/cpu{core}/cpufreq");
            [format!("{dir}/scaling_governor"), format!("{dir}/scaling_driver")]
        });
        let fixed = FILES.iter().map(|path| (*path).to_owned());
        let paths = fixed.chain(SYSCTLS.iter().map(|name| sysctl_path(name))).chain(of_cores);
        let files: BTreeMap<_, _> = paths.map(|path| (path.clone(), read_fact(&path))).collect();
        let mut facts = SystemFacts {
            files,
            open_files: limits.open_files,
            locked_memory: limits.locked_memory,
            is_root: rustix::process::geteuid().is_root(),
            cores,
            ring_refusal: ring_refusal(),
            ring_features: ring_features().map_err(|error| reason(&error)),
            kernel_suites: Vec::new(),
            landlock: landlock().map_err(|error| reason(&error)),
        };
        // As root, a probe would make the kernel load the module.
        if facts.has_tls_module() {
            facts.kernel_suites = suite_names(KernelSuites::probe());
        }
        facts
    }

    /// Returns whether the kernel has loaded TLS.
    pub(super) fn has_tls_module(&self) -> bool {
        ["/proc/net/tls_stat", "/sys/module/tls/initstate"].iter().any(|path| self.file(path).is_ok())
    }

    /// Returns the text of a file, with one space between words.
    pub(super) fn file(&self, path: &str) -> Result<String, String> {
        self.files.get(path).cloned().unwrap_or_else(|| Err(format!("{path} was not read")))
    }

    /// Returns the value of a setting of the kernel.
    pub(super) fn sysctl(&self, name: &str) -> Result<String, String> {
        self.file(&sysctl_path(name)).map_err(|why| format!("cannot read {name}: {why}"))
    }
}

/// Returns the path to a setting.
pub(super) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Reads a file of `/proc` or `/sys`, with one space between words.
pub(super) fn read_fact(path: &str) -> Result<String, String> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(FACT_LEN_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) => Ok(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err("this kernel lacks it, or a container hides it".to_owned())
        }
        Err(error) => Err(reason(&error)),
    }
}

/// The longest one is `/proc/self/status`.
const FACT_LEN_MAX: u64 = 16 << 10;

fn ring_refusal() -> Option<String> {
    match Engine::ALL.contains(&Engine::IoUring) {
        true => Engine::Auto.choose().map_or_else(|error| Some(error.to_string()), |is| is.fallback_reason),
        false => Some("this system does not have it".to_owned()),
    }
}

fn suite_names(suites: KernelSuites) -> Vec<String> {
    let all = [("TLS 1.2", false), ("TLS 1.3", true)].into_iter().flat_map(|(version, is_tls13)| {
        KernelCipher::ALL.iter().map(move |&cipher| (version, KernelSuite { is_tls13, cipher }))
    });
    let name = |cipher| match cipher {
        KernelCipher::Aes128Gcm => "AES-128-GCM",
        KernelCipher::Aes256Gcm => "AES-256-GCM",
        KernelCipher::Chacha20Poly1305 => "ChaCha20-Poly1305",
    };
    let found = all.filter(|(_, suite)| suites.has(*suite));
    found.map(|(version, suite)| format!("{version} {}", name(suite.cipher))).collect()
}

#[cfg(target_os = "linux")]
fn landlock() -> io::Result<i32> {
    crate::sys::landlock::version()
}

#[cfg(not(target_os = "linux"))]
fn landlock() -> io::Result<i32> {
    Err(ErrorKind::Unsupported.into())
}

/// Files besides those of settings.
const FILES: [&str; 14] = [
    "/proc/meminfo",
    "/proc/net/tls_stat",
    "/proc/self/status",
    "/proc/sys/kernel/seccomp/actions_avail",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/node/online",
    "/sys/fs/cgroup/cpu.max",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/module/tls/initstate",
    "/proc/sys/kernel/osrelease",
    "/proc/version",
];

/// Settings of the kernel: those of the rules, and others that are only shown.
const SYSCTLS: [&str; 20] = [
    "fs.file-max",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.io_uring_group",
    "net.core.default_qdisc",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
];

/// Settings of a test, or files, with their text.
#[cfg(test)]
pub(super) type TestSettings = &'static [(&'static str, &'static str)];

#[cfg(test)]
impl SystemFacts {
    /// Returns facts with these settings of the kernel and no others. Paths begin with `/`.
    pub(super) fn of(settings: &[(&str, &str)]) -> SystemFacts {
        let path = |name: &str| if name.starts_with('/') { name.to_owned() } else { sysctl_path(name) };
        let files = settings.iter().map(|(name, value)| (path(name), Ok((*value).to_owned()))).collect();
        SystemFacts {
            files,
            open_files: (Some(1024), Some(1 << 20)),
            locked_memory: (None, None),
            is_root: false,
            cores: Ok(vec![0, 1]),
            ring_refusal: None,
            ring_features: Ok(RingFeatures { operation_count: 60, names: vec!["zero-copy send"] }),
            kernel_suites: Vec::new(),
            landlock: Ok(6),
        }
    }
}

#[cfg(test)]
impl SystemPlan {
    pub(super) fn of_test() -> SystemPlan {
        SystemPlan { worker_count: 2, ..SystemPlan::new(&Settings::default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::sysctl_rules::SYSCTL_RULES;

    #[test]
    fn settings_that_rules_judge_are_read() {
        for rule in SYSCTL_RULES {
            assert!(SYSCTLS.contains(&rule.name), "{}", rule.name);
        }
    }

    #[test]
    fn files_that_cannot_be_read_have_a_reason() {
        assert_eq!(read_fact("/proc/none"), Err("this kernel lacks it, or a container hides it".to_owned()));
        assert_eq!(read_fact("/"), Err("is a directory".to_owned()));
        let facts = SystemFacts::of(&[("net.core.somaxconn", "7")]);
        assert_eq!(facts.sysctl("net.core.somaxconn"), Ok("7".to_owned()));
        assert!(facts.sysctl("net.core.none").is_err_and(|why| why.contains("net.core.none")));
    }
}
