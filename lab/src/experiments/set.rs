//! Sets of experiments, one after the other, each with a result file of its own.
//!
//! ```text
//! plan, with the time that it takes ─▶ tarpon-lab race … ─▶ tarpon-lab http2 … ─▶ …      a failed experiment does not end the set
//! ```

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::error::LabError;

/// Options of `tarpon-lab set`.
#[derive(Args)]
pub(crate) struct SetArgs {
    /// Run this set
    #[arg(value_enum)]
    set: LabSet,
    /// Run only these experiments of it, by the names of their result files
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Write the result files to this directory [default: lab/results for the whole set, and none for the short one]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Print the commands and how long they take, and end
    #[arg(long)]
    plan: bool,
    /// Measure this build of tarpon [default: the program next to tarpon-lab]
    #[arg(long, value_name = "PATH")]
    tarpon: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LabSet {
    /// The most telling experiments with few rounds: within ten minutes
    Short,
    /// All experiments of docs/performance.md
    Whole,
}

/// An experiment of a set.
struct PlannedExperiment {
    /// The name of its result file.
    name: &'static str,
    /// The arguments of tarpon-lab in each set, and how many seconds they take.
    whole: (&'static str, u32),
    short: Option<(&'static str, u32)>,
}

/// Runs the set. Fails if one of its experiments failed.
pub(crate) fn run(args: &SetArgs) -> Result<(), LabError> {
    if let Some(name) = args.only.iter().find(|name| EXPERIMENTS.iter().all(|known| known.name != **name)) {
        let names = EXPERIMENTS.map(|known| known.name).join(", ");
        return Err(format!("{name}: no such experiment; there are {names}").into());
    }
    let planned: Vec<_> = EXPERIMENTS.iter().filter_map(|experiment| experiment.of(args)).collect();
    for (name, arguments, seconds) in &planned {
        println!("{name:18} {seconds:5} s   tarpon-lab {arguments}");
    }
    let seconds: u32 = planned.iter().map(|(_, _, seconds)| seconds).sum();
    println!("\n{} experiments, about {} minutes on an idle machine", planned.len(), seconds.div_ceil(60));
    if args.plan {
        return Ok(());
    }
    let program = env::current_exe()?;
    let (start, mut failed) = (Instant::now(), Vec::new());
    for (name, arguments, _) in &planned {
        println!("\n== {name}, after {} s", start.elapsed().as_secs());
        let mut command = Command::new(&program);
        command.args(arguments.split(' '));
        if let Some(results) = args.results() {
            command.arg("--out").arg(results.join(format!("{name}.json")));
        }
        // An experiment may compare builds of its own.
        if let Some(tarpon) = args.tarpon.as_ref().filter(|_| !arguments.contains("--tarpon")) {
            command.arg("--tarpon").arg(tarpon);
        }
        if !command.status()?.success() {
            failed.push(*name);
        }
    }
    println!("\n{} experiments in {} s", planned.len(), start.elapsed().as_secs());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

impl SetArgs {
    fn results(&self) -> Option<PathBuf> {
        let usual = (self.set == LabSet::Whole).then(|| PathBuf::from("lab/results"));
        self.results.clone().or(usual)
    }
}

impl PlannedExperiment {
    /// Returns name, arguments and seconds, if the experiment is one of those that run.
    fn of(&self, args: &SetArgs) -> Option<(&'static str, &'static str, u32)> {
        let (arguments, seconds) = match args.set {
            LabSet::Whole => self.whole,
            LabSet::Short => self.short?,
        };
        let is_wanted = args.only.is_empty() || args.only.iter().any(|name| name == self.name);
        is_wanted.then_some((self.name, arguments, seconds))
    }
}

const fn experiment(
    name: &'static str,
    whole: (&'static str, u32),
    short: Option<(&'static str, u32)>,
) -> PlannedExperiment {
    PlannedExperiment { name, whole, short }
}

/// All experiments. The times were measured on two cores of a virtual machine.
#[rustfmt::skip]
const EXPERIMENTS: [PlannedExperiment; 41] = [
    experiment("race",
        ("race --rounds 5 --seconds 1 --peers nginx,h2o,caddy,lighttpd,apache,static-web-server,python,tarpon-uring-packed,tarpon-epoll-packed,tarpon-poll,tarpon-threads,tarpon-prefork,tarpon-fork", 180),
        Some(("race --rounds 3 --seconds 0.5 --peers nginx,h2o,caddy,lighttpd,apache,static-web-server,python", 60))),
    experiment("race-sizes",
        ("race --rounds 3 --seconds 1 --size 137,4096,10240,65536 --peers nginx,h2o,caddy,lighttpd,apache,static-web-server", 260),
        Some(("race --rounds 2 --seconds 0.5 --size 137,10240,65536 --peers nginx,h2o,lighttpd", 60))),
    experiment("race-large",
        ("race --rounds 3 --seconds 2 --connections 4 --size 1048576,104857600 --peers null-sendfile,nginx,h2o,caddy,lighttpd,apache,static-web-server", 260),
        Some(("race --rounds 2 --seconds 1 --connections 4 --size 1048576 --peers null-sendfile,nginx,lighttpd", 30))),
    experiment("race-large-bbr",
        ("race --rounds 5 --seconds 3 --connections 4 --size 1048576,104857600 --other-max 25 --congestion-control bbr --peers null-sendfile,nginx,lighttpd", 260),
        None),
    experiment("mix",
        ("race --rounds 3 --seconds 2 --site lab/site --peers nginx,h2o,caddy,lighttpd,apache,static-web-server,tarpon-uring-packed,tarpon-epoll-packed", 120),
        None),
    experiment("sizes",
        ("race --rounds 1 --seconds 0.4 --connections 1 --size 1000000..100000000/1000000 --only tarpon-uring-tar,tarpon-epoll-tar,nginx", 420),
        None),
    experiment("sizes-fine",
        ("race --rounds 1 --seconds 0.2 --connections 1 --size 20000..10000000/20000 --only tarpon-uring-tar --other-max 12 --idle-wait 0", 440),
        None),
    experiment("race-new",
        ("race --rounds 5 --seconds 1 --reconnect --peers nginx,h2o,caddy,lighttpd,apache,static-web-server", 110),
        Some(("race --rounds 3 --seconds 0.5 --reconnect --peers nginx,h2o,lighttpd", 30))),
    experiment("rungs",
        ("race --rounds 3 --seconds 1 --connections 8 --reconnect --only naive-program,naive-database,naive-log,naive-bytes,naive-files,tarpon-fork,tarpon-prefork,tarpon-threads,tarpon-poll,tarpon-epoll,tarpon-uring,python,apache,nginx", 90),
        Some(("race --rounds 1 --seconds 0.5 --connections 8 --reconnect --only naive-program,naive-database,naive-log,naive-bytes,naive-files,tarpon-fork,tarpon-epoll,nginx", 15))),
    experiment("stories",
        ("stories --rounds 3 --seconds 5", 240),
        None),
    experiment("race-pipelined",
        ("race --rounds 5 --seconds 1 --pipeline 16 --peers nginx,h2o,caddy,lighttpd", 90),
        Some(("race --rounds 2 --seconds 0.5 --pipeline 16 --peers nginx,h2o", 20))),
    experiment("race-browser",
        ("race --rounds 5 --seconds 1 --request browser --peers nginx,h2o,caddy,lighttpd,apache,static-web-server", 110),
        Some(("race --rounds 3 --seconds 0.5 --request browser --peers nginx,h2o", 30))),
    experiment("race-gzip",
        ("race --rounds 3 --seconds 1 --request gzip --size 65536 --peers nginx,h2o,caddy,tarpon-uring-packed,tarpon-epoll-packed", 60),
        None),
    experiment("race-range",
        ("race --rounds 3 --seconds 1 --request range --peers nginx,h2o,caddy,lighttpd,apache,static-web-server", 60),
        None),
    experiment("race-conditional",
        ("race --rounds 3 --seconds 1 --request conditional --peers nginx,h2o,caddy,lighttpd,apache,static-web-server", 60),
        None),
    experiment("log",
        ("race --rounds 7 --seconds 1 --only null-epoll,null-uring,tarpon-epoll,tarpon-epoll-log,tarpon-uring,tarpon-uring-log,nginx,nginx-log", 120),
        Some(("race --rounds 3 --seconds 0.5 --only null-epoll,tarpon-epoll,tarpon-epoll-log,tarpon-uring,tarpon-uring-log", 30))),
    // `tarpon-lab pgo` makes the first of the two builds.
    experiment("pgo",
        ("race --rounds 5 --seconds 2 --only null-epoll,null-uring,tarpon-uring,tarpon-epoll,before-uring,before-epoll,tarpon-uring-jemalloc,tarpon-epoll-jemalloc --tarpon target/pgo/tarpon-pgo --before target/release/tarpon", 150),
        None),
    experiment("cold",
        ("cold --rounds 3 --seconds 3 --servers tarpon-uring,tarpon-epoll,tarpon-uring-packed,tarpon-epoll-packed,nginx,nginx-threads", 200),
        None),
    experiment("disk",
        ("disk --rounds 5", 80),
        None),
    experiment("start",
        ("start --rounds 5 --files 100000 --servers tarpon-uring-packed,tarpon-uring-tar,tarpon-uring,nginx", 120),
        Some(("start --rounds 1 --files 10000 --servers tarpon-uring-packed,tarpon-uring,nginx", 30))),
    experiment("tls",
        ("tls --rounds 5 --seconds 2 --other-max 12", 240),
        Some(("tls --rounds 1 --seconds 0.5 --other-max 20", 30))),
    experiment("tls-storm",
        ("tls --rounds 5 --seconds 2 --storm 500 --rate 1000 --connections 4 --other-max 12", 150),
        None),
    experiment("ktls",
        ("ktls", 240),
        None),
    experiment("http2",
        ("http2 --rounds 3 --seconds 1 --other-max 20", 240),
        Some(("http2 --rounds 1 --seconds 0.5 --sizes 1024 --other-max 20", 30))),
    experiment("http2-share",
        ("http2 --rounds 3 --seconds 1 --carriers clear --server-percent 30 --servers tarpon-uring,tarpon-epoll,nginx,h2o --other-max 20", 100),
        None),
    experiment("http2-share-tls",
        ("http2 --rounds 3 --seconds 1 --sizes 1024 --carriers tls --server-percent 30 --servers tarpon-uring,tarpon-epoll,h2o --other-max 20", 30),
        None),
    experiment("http2-tls-large",
        ("http2 --rounds 3 --seconds 1 --sizes 65536 --carriers tls --servers tarpon-uring,tarpon-epoll,h2o --other-max 20", 30),
        None),
    experiment("streams",
        ("streams --rounds 2 --servers tarpon-uring,tarpon-epoll,nginx,h2o", 60),
        None),
    experiment("sweep",
        ("sweep --rounds 5", 180),
        Some(("sweep --rounds 1 --links loopback --sizes 1024,16384,65536,1048576", 15))),
    experiment("connections",
        ("race --rounds 3 --seconds 1 --connections 1,10,100,1000,10000 --peers nginx,h2o", 220),
        None),
    experiment("functions",
        ("race --rounds 5 --seconds 2 --answer function", 120),
        None),
    experiment("loads",
        ("loads --rounds 3 --other-max 20", 300),
        None),
    experiment("programs",
        ("race --rounds 5 --seconds 2 --connections 1,16 --answer program", 120),
        None),
    experiment("stalled",
        ("stalled --rounds 5 --other-max 12", 200),
        None),
    experiment("attacks",
        ("attacks --rounds 3 --seconds 2", 700),
        None),
    experiment("proxy",
        ("proxy --rounds 5 --seconds 1 --sizes 1024,65536 --connections 1,16,100 --other-max 12", 300),
        Some(("proxy --rounds 1 --seconds 0.5 --sizes 1024 --connections 16 --other-max 20", 30))),
    experiment("stalled-upstream",
        ("stalled --upstream --rounds 5 --other-max 12", 150),
        None),
    experiment("tunnels",
        ("tunnels --rounds 3", 120),
        None),
    experiment("ladder",
        ("ladder --rounds 3 --seconds 2 --other-max 12", 180),
        None),
    experiment("pack",
        ("pack --files 2000 --effort best", 240),
        None),
    experiment("pack-many",
        ("pack --files 100000 --effort fast", 200),
        None),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn short_set_takes_ten_minutes_at_most() {
        let seconds: u32 = planned(&["set", "short"]).iter().map(|(_, _, seconds)| seconds).sum();
        assert!((1..=600).contains(&seconds), "{seconds} s");
    }

    #[test]
    fn each_command_is_valid_and_each_name_is_there_once() {
        for set in ["short", "whole"] {
            for (name, arguments, _) in planned(&["set", set]) {
                let arguments = ["tarpon-lab"].into_iter().chain(arguments.split(' '));
                let parsed = crate::LabCommand::try_parse_from(arguments);
                assert!(parsed.is_ok(), "{name}: {}", parsed.err().expect("an error"));
            }
        }
        let mut names = EXPERIMENTS.map(|experiment| experiment.name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn experiments_can_be_chosen() {
        let names =
            |arguments: &[&str]| planned(arguments).iter().map(|(name, ..)| *name).collect::<Vec<_>>();
        assert_eq!(names(&["set", "whole", "--only=ktls,race"]), ["race", "ktls"]);
        assert!(run(&SetCli::parse_from(["set", "whole", "--only=rase", "--plan"]).args).is_err());
    }

    fn planned(arguments: &[&str]) -> Vec<(&'static str, &'static str, u32)> {
        let args = SetCli::parse_from(arguments).args;
        EXPERIMENTS.iter().filter_map(|experiment| experiment.of(&args)).collect()
    }

    #[derive(Parser)]
    struct SetCli {
        #[command(flatten)]
        args: SetArgs,
    }
}
