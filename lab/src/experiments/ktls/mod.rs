//! Kernel TLS, inside an emulated machine that counts instructions: responses in clear text, with TLS in the server and in the kernel, and ways
//! to send a file.
//!
//! ```text
//! tarpon-lab ktls ─▶ tests/vm boot --count-instructions ─▶ tarpon-lab ktls --inside ─┬▶ tarpon ⇄ client
//!        ▲                                                                          └▶ a file ─▶ socket, by each method
//!        └────────────────── a line of JSON on the console ◀────────────────────────────────────┘
//! ```
//!
//! The clock of the machine advances by one nanosecond with each instruction, so the time that its kernel counts for a thread is a number of
//! instructions. They are those of the emulated processor: an instruction of AES counts as much as an addition.
//!
//! | file | content |
//! |---|---|
//! | `responses.rs` | responses of tarpon |
//! | `sends.rs` | ways to send a file |

mod responses;
mod sends;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use super::options::{CommonArgs, command_line, file_name};
use super::output::RecordFile;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::measure::syscalls::mount_tracefs;
use crate::records::LabRecord;
use crate::records::ktls::{InsideRecord, KernelTlsRecord};
use crate::servers::certificate::{CertificateKey, LabCertificate};

/// Options of `tarpon-lab ktls`.
#[derive(Args)]
pub(crate) struct KernelTlsArgs {
    /// Measure on this machine and print the numbers as JSON: what runs in the virtual machine
    #[arg(long, hide = true)]
    inside: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// Boots a machine that measures, prints the report and writes the record.
pub(crate) fn run(args: &KernelTlsArgs) -> Result<(), LabError> {
    if args.inside {
        return inside();
    }
    let output = RecordFile::open(args.common.out.as_deref())?;
    let machine = this_machine();
    let root = tempfile::tempdir()?;
    fill(root.path(), &args.tarpon()?)?;
    let command = command_line("ktls", &[("tarpon", file_name(args.common.tarpon.as_deref()))]);
    let record = KernelTlsRecord { command, machine, inside: boot(root.path())? };
    output.finish(&LabRecord::KernelTls(record))
}

impl KernelTlsArgs {
    fn tarpon(&self) -> Result<PathBuf, LabError> {
        match &self.common.tarpon {
            Some(path) => Ok(path.clone()),
            None => Ok(env::current_exe()?.with_file_name("tarpon")),
        }
    }
}

/// Writes the files of the virtual machine.
fn fill(root: &Path, tarpon: &Path) -> Result<(), LabError> {
    let mut libraries = Command::new(VM);
    libraries.arg("libraries").arg(root).arg(tarpon).arg(env::current_exe()?);
    let copied = libraries.status().map_err(|error| format!("{VM}: {error}"))?;
    if !copied.success() {
        return Err(format!("{VM} libraries: {copied}").into());
    }
    let certificate = LabCertificate::create(root, CertificateKey::EcdsaP256)?;
    fs::rename(certificate.chain, root.join("server.crt"))?;
    fs::rename(certificate.key, root.join("server.key"))?;
    fs::set_permissions(root.join("server.key"), fs::Permissions::from_mode(0o600))?;
    fs::write(root.join("server.der"), certificate.der)?;
    fs::create_dir(root.join("site"))?;
    for (size, _) in responses::LOADS {
        fs::write(root.join(format!("site/{size}.bin")), generated_site::noise(size, size as usize))?;
    }
    let start = root.join("start");
    fs::write(&start, "#!/bin/sh\nexec tarpon-lab ktls --inside\n")?;
    Ok(fs::set_permissions(start, fs::Permissions::from_mode(0o755))?)
}

/// Runs the machine to its end, and returns what it has measured. Shows the lines of its console that are no result.
fn boot(root: &Path) -> Result<InsideRecord, LabError> {
    let mut command = Command::new(VM);
    command.arg("boot").arg(root).args(["--count-instructions", "--memory", "1536"]);
    let mut machine = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let console = BufReader::new(machine.stdout.take().expect("it is piped"));
    let mut measured = None;
    for line in console.lines() {
        let line = line?;
        match line.strip_prefix(RESULT) {
            Some(json) => measured = Some(serde_json::from_str(json)?),
            None => eprintln!("{line}"),
        }
    }
    let ended = machine.wait()?;
    measured
        .ok_or_else(|| format!("the virtual machine ended without a result ({ended}); see tests/vm").into())
}

fn inside() -> Result<(), LabError> {
    mount_tracefs()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim_end().to_owned();
    let record = InsideRecord { kernel, responses: responses::measure()?, sends: sends::measure()? };
    println!("{RESULT}{}", serde_json::to_string(&record)?);
    Ok(())
}

/// The program that boots the machine.
const VM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vm");

/// Precedes the result on the console.
const RESULT: &str = "result: ";
