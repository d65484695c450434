//! Random reads from a disk, by the length of its queue.
//!
//! ```text
//! a file ─▶ fio, 1 read at once ─▶ 2 ─▶ … ─▶ 64      O_DIRECT, io_uring
//! ```
//!
//! A disk that serves many reads at once is faster with a queue: this is what io_uring, and the loader of tarpon, can gain from it.

use std::path::Path;
use std::process::Command;

use clap::Args;
use serde_json::Value;

use super::options::{CommonArgs, SiteDirArgs, command_line};
use super::output::RecordFile;
use crate::error::LabError;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::disk::{DiskRecord, DiskWindow};

/// Options of `tarpon-lab disk`.
#[derive(Args)]
pub(crate) struct DiskArgs {
    /// Run this many rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Read for this long with each length of the queue
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Send this many reads at once, in turn
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = clap::value_parser!(u32).range(1..=1024))]
    depths: Vec<u32>,
    /// Read from a file of this many MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    size: u32,
    #[command(flatten)]
    dir: SiteDirArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Reads with each length of the queue, prints the report and writes the record.
pub(crate) fn run(args: &DiskArgs) -> Result<(), LabError> {
    let output = RecordFile::open(args.common.out.as_deref())?;
    let (machine, program) = (this_machine(), fio(&["--version".into()])?.trim().to_owned());
    // The first run writes the file; dropping the directory deletes it.
    let directory = tempfile::Builder::new().prefix("tarpon-lab-").tempdir_in(args.dir.dir())?;
    let file = directory.path().join("file");
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        let windows = args.depths.iter().map(|depth| args.window(&file, *depth));
        rounds.push(windows.collect::<Result<Vec<_>, _>>()?);
        eprintln!("round {round}");
    }
    output.finish(&LabRecord::Disk(DiskRecord {
        command: args.command(),
        machine,
        program,
        file_len: u64::from(args.size) << 20,
        seconds: args.seconds,
        depths: args.depths.clone(),
        rounds,
    }))
}

impl DiskArgs {
    /// Reads with this length of the queue.
    fn window(&self, file: &Path, depth: u32) -> Result<DiskWindow, LabError> {
        let text = fio(&[
            format!("--filename={}", file.display()),
            format!("--size={}M", self.size),
            format!("--iodepth={depth}"),
            format!("--runtime={}", self.seconds),
            "--name=reads".into(),
            "--rw=randread".into(),
            "--bs=4k".into(),
            "--direct=1".into(),
            "--ioengine=io_uring".into(),
            "--time_based".into(),
            // Other blocks in each run.
            "--randrepeat=0".into(),
            "--output-format=json".into(),
        ])?;
        Ok(parse(&text, depth).ok_or_else(|| format!("fio: no reads in its output:\n{text}"))?)
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        command_line(
            "disk",
            &[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("depths", self.depths.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
                ("size", self.size.to_string()),
            ],
        )
    }
}

/// Runs fio, and returns what it prints. Fails if it fails.
fn fio(arguments: &[String]) -> Result<String, LabError> {
    let output = Command::new("fio").args(arguments).output();
    let output = output.map_err(|error| format!("fio: {error}; install it (Debian: fio)"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("fio: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}

/// Reads what fio prints as JSON. Returns `None` if it read nothing.
fn parse(text: &str, depth: u32) -> Option<DiskWindow> {
    // Messages may precede the object.
    let report: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let job = report["jobs"].get(0)?;
    let reads = &job["read"];
    let percentile = |name: &str| reads["clat_ns"]["percentile"][name].as_u64();
    let percent = |value: &Value| value.as_f64().map(|percent| percent / 100.0);
    Some(DiskWindow {
        depth,
        rate: reads["iops"].as_f64().filter(|rate| *rate > 0.0)?,
        p50_ns: percentile("50.000000")?,
        p99_ns: percentile("99.000000")?,
        cpu_share: percent(&job["usr_cpu"])? + percent(&job["sys_cpu"])?,
        disk_share: percent(&report["disk_util"][0]["util"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_fio_is_read() {
        let output = |iops: f64| {
            format!(
                "a message\n{{\"jobs\": [{{\"read\": {{\"iops\": {iops}, \"clat_ns\": {{\"percentile\": \
                 {{\"50.000000\": 73216, \"99.000000\": 3522560}}}}}}, \"usr_cpu\": 10.0, \"sys_cpu\": 15.0}}], \
                 \"disk_util\": [{{\"name\": \"vda\", \"util\": 75.0}}]}}"
            )
        };
        let window = parse(&output(24_836.5), 4).unwrap();
        let want = DiskWindow {
            depth: 4,
            rate: 24_836.5,
            p50_ns: 73_216,
            p99_ns: 3_522_560,
            cpu_share: 0.25,
            disk_share: Some(0.75),
        };
        assert_eq!(window, want);
        assert_eq!(parse(&output(0.0), 4), None);
        assert_eq!(parse("no object", 4), None);
    }
}
