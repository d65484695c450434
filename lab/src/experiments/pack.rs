//! Packing: time and size, compared with the reference encoders.
//!
//! ```text
//! site ─▶ tarpon pack ─▶ tarpon serves it ─▶ each file requested in each coding ─▶ bytes of the contents
//!     └─▶ brotli, zopfli, zstd, for each file that tarpon sent coded ────────────▶ bytes of their output
//! ```

use std::env;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::options::{CommonArgs, command_line, file_name};
use super::output::RecordFile;
use crate::client::{connect, read_response};
use crate::error::LabError;
use crate::format::thousands;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::pack::{CodingSizes, PackEffort, PackRecord, PackedSiteRecord, ReferenceCoding};
use crate::records::server::{PeerServer, SiteForm};
use crate::servers::programs::run_command;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab pack`.
#[derive(Args)]
pub(crate) struct PackExperimentArgs {
    /// Generate a site with this many pages
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Set the effort of tarpon and the reference encoders
    #[arg(long, value_enum, default_value = "best")]
    effort: PackEffort,
    /// Pack this site too; it has an index.html [default: the documentation of python3-doc]
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Returns the command of the reference encoder, with arguments that make it write to standard output.
fn encoder_command(coding: ReferenceCoding, effort: PackEffort) -> &'static [&'static str] {
    match (coding, effort) {
        (ReferenceCoding::Br, PackEffort::Best) => &["brotli", "--quality=11", "--stdout"],
        (ReferenceCoding::Br, PackEffort::Balanced) => &["brotli", "--quality=10", "--stdout"],
        (ReferenceCoding::Br, PackEffort::Fast) => &["brotli", "--quality=5", "--stdout"],
        (ReferenceCoding::Gzip, PackEffort::Best) => &["zopfli", "-c"],
        (ReferenceCoding::Gzip, PackEffort::Balanced | PackEffort::Fast) => {
            &["gzip", "-9", "--no-name", "--stdout"]
        }
        (ReferenceCoding::Zstd, PackEffort::Best) => &["zstd", "--ultra", "-22", "--quiet", "--stdout"],
        (ReferenceCoding::Zstd, PackEffort::Balanced) => &["zstd", "-15", "--quiet", "--stdout"],
        (ReferenceCoding::Zstd, PackEffort::Fast) => &["zstd", "-9", "--quiet", "--stdout"],
    }
}

/// Measures packing, prints the report and writes the record.
pub(crate) fn run(args: &PackExperimentArgs) -> Result<(), LabError> {
    let output = RecordFile::open(args.common.out.as_deref())?;
    let machine = this_machine();
    let encoders = ReferenceCoding::ALL.map(|coding| encoder_version(coding, args.effort));
    let encoders = encoders.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (given, given_name) = match &args.site {
        Some(site) => (site.clone(), "given site".into()),
        None => (python_documentation()?, "documentation of Python".to_owned()),
    };
    let index = given.join(PAGE);
    let index = fs::read(&index).map_err(|error| format!("{}: {error}", index.display()))?;
    let documented = test_bed(args, index)?;
    // Dereferences symbolic links: they may lead to other packages.
    run_command(Command::new("cp").arg("-rL").arg(given.join(".")).arg(documented.site()))?;
    let generated = test_bed(args, generated_site::lines(1024))?;
    generated_site::write(&generated.site(), args.files as usize)?;

    let tarpon = documented.tarpon_version()?;
    let mut sites = Vec::new();
    for (name, bed) in [(given_name, documented), ("generated pages".into(), generated)] {
        sites.push(measure_site(&bed, name, args.effort)?);
    }
    let record =
        PackRecord { command: args.command(), machine, effort: args.effort, tarpon, encoders, sites };
    output.finish(&LabRecord::Pack(record))
}

fn test_bed(args: &PackExperimentArgs, index: Vec<u8>) -> Result<TestBed, LabError> {
    TestBed::new(&env::temp_dir(), (PAGE, index), args.common.tarpon.as_deref(), None)
}

/// Packs a site, requests all its files, and encodes them with the reference encoders.
fn measure_site(bed: &TestBed, name: String, effort: PackEffort) -> Result<PackedSiteRecord, LabError> {
    let files = list_files(&bed.site())?;
    eprintln!("{name}: packing {} files", thousands(files.len()));
    let start = Instant::now();
    run_command(&mut bed.pack_command(effort.name()))?;
    let elapsed_ns = start.elapsed().as_nanos() as u64;

    let process = bed.start(PeerServer::TarponEpollPacked)?;
    let mut codings = Vec::new();
    for coding in ReferenceCoding::ALL {
        let encoder = encoder_command(coding, effort);
        // A new connection for each coding: the server may close an idle connection while an encoder runs.
        let mut stream = connect(process.address(), RESPONSE_TIME_MAX)?;
        let (mut sent, mut coded_files) = (0, Vec::new());
        for file in &files {
            let (is_coded, len) = fetch(&mut stream, process.address(), &file.name, coding)?;
            if is_coded {
                sent += len;
                coded_files.push(file);
            } else if len != file.len {
                return Err(format!("/{}: the content is not as long as the file", file.name).into());
            }
        }
        eprintln!("{name}: {} for {} files", encoder[0], thousands(coded_files.len()));
        let start = Instant::now();
        let reference = encode(encoder, &bed.site(), &coded_files)?;
        codings.push(CodingSizes {
            coding,
            files: coded_files.len(),
            original: coded_files.iter().map(|file| file.len).sum(),
            tarpon: sent,
            reference,
            reference_ns: start.elapsed().as_nanos() as u64,
        });
    }
    let bytes = files.iter().map(|file| file.len).sum();
    let packed = fs::metadata(bed.site_as(SiteForm::Packed))?.len();
    Ok(PackedSiteRecord { name, files: files.len(), bytes, packed, elapsed_ns, codings })
}

/// A file of a site.
struct CorpusFile {
    /// The path, without a leading slash.
    name: String,
    len: u64,
}

/// Lists all files that tarpon serves, which excludes dotfiles.
fn list_files(site: &Path) -> Result<Vec<CorpusFile>, LabError> {
    let mut files = Vec::new();
    let mut directories = vec![site.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            match entry.metadata()? {
                _ if entry.file_name().to_string_lossy().starts_with('.') => {}
                metadata if metadata.is_dir() => directories.push(entry.path()),
                metadata => {
                    let path = entry.path();
                    let name = path.strip_prefix(site)?.to_str();
                    let name = name.ok_or_else(|| format!("{}: not UTF-8", path.display()))?;
                    files.push(CorpusFile { name: name.to_owned(), len: metadata.len() });
                }
            }
        }
    }
    // The longest file first, so that no encoder starts it when all others are done.
    files.sort_by(|one, other| (other.len, &one.name).cmp(&(one.len, &other.name)));
    Ok(files)
}

/// Requests a file with this coding in Accept-Encoding. Returns whether the response is coded, and the length of its content.
fn fetch(
    stream: &mut TcpStream,
    server: SocketAddr,
    name: &str,
    coding: ReferenceCoding,
) -> Result<(bool, u64), LabError> {
    let (path, coding) = (percent_encode(name), coding.name());
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {server}\r\nAccept-Encoding: {coding}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut wire = Vec::new();
    let size = read_response(stream, &mut wire).map_err(|error| format!("/{path}: {error}"))?;
    let head = String::from_utf8_lossy(&wire[..size.head_len]).to_ascii_lowercase();
    let is_coded = head.lines().any(|line| line == format!("content-encoding: {coding}"));
    Ok((is_coded, size.content_len as u64))
}

/// Percent-encodes a path. RFC 3986, section 2.1.
fn percent_encode(path: &str) -> String {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encode = |byte| if unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(encode).collect()
}

/// Runs an encoder for each file, on all cores. Returns the bytes that it wrote.
fn encode(encoder: &[&str], site: &Path, files: &[&CorpusFile]) -> Result<u64, LabError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut written = 0;
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut command = Command::new(encoder[0]);
            command.args(&encoder[1..]).arg(site.join(&file.name)).stdin(Stdio::null());
            let output = command.output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                return Err(format!("{}: {}", file.name, String::from_utf8_lossy(&output.stderr)));
            }
            written += output.stdout.len() as u64;
        }
        Ok(written)
    };
    let threads = thread::available_parallelism()?.get();
    let written = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let written = threads.into_iter().map(|thread| thread.join().expect("an encoder does not panic"));
        written.sum::<Result<u64, String>>()
    });
    Ok(written.map_err(|error| format!("{}: {error}", encoder[0]))?)
}

/// Returns the name, version and level of an encoder. Fails if the encoder is not installed.
fn encoder_version(coding: ReferenceCoding, effort: PackEffort) -> Result<String, LabError> {
    let encoder = encoder_command(coding, effort);
    let program = encoder[0];
    // zopfli has no such option: it looks for a file of this name, and exits.
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}; install it (Debian: {program})"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split([' ', ',', 'v', '\n']).find(|word| {
        word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    });
    let level = encoder.iter().filter(|argument| argument.contains(|letter: char| letter.is_ascii_digit()));
    Ok([program].into_iter().chain(number).chain(level.copied()).collect::<Vec<_>>().join(" "))
}

/// Finds the documentation of Python in the directory where Debian installs it.
fn python_documentation() -> Result<PathBuf, LabError> {
    let packages = fs::read_dir("/usr/share/doc").map_err(|error| format!("/usr/share/doc: {error}"))?;
    let mut found: Vec<PathBuf> = packages.flatten().map(|entry| entry.path().join("html")).collect();
    found.retain(|html| {
        html.to_string_lossy().contains("/python3") && html.join("library/functions.html").is_file()
    });
    found.sort();
    Ok(found
        .into_iter()
        .next()
        .ok_or("no documentation of Python; install python3-doc, or pass a site with `--site`")?)
}

impl PackExperimentArgs {
    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        command_line(
            "pack",
            &[
                ("files", self.files.to_string()),
                ("effort", self.effort.name().to_owned()),
                ("site", file_name(self.site.as_deref())),
                ("tarpon", file_name(self.common.tarpon.as_deref())),
            ],
        )
    }
}

/// The page that every site has.
const PAGE: &str = "index.html";

/// Longest wait for a response.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_percent_encoded() {
        for (path, want) in [("a/b-c_1.html", "a/b-c_1.html"), ("50% ä?", "50%25%20%C3%A4%3F")] {
            assert_eq!(percent_encode(path), want);
        }
    }

    #[test]
    fn encoder_runs_for_each_file() {
        let directory = tempfile::tempdir().unwrap();
        let page = generated_site::page(3);
        fs::write(directory.path().join("page.html"), &page).unwrap();
        let encoder = |coding| encoder_command(coding, PackEffort::Fast);
        let file = CorpusFile { name: "page.html".into(), len: page.len() as u64 };
        let zstd = encoder(ReferenceCoding::Zstd);
        let written = encode(zstd, directory.path(), &[&file, &file]).unwrap();
        assert!(
            written.is_multiple_of(2) && written > 100 && written < 2 * file.len,
            "{written} of {}",
            file.len
        );
        let missing = CorpusFile { name: "missing".into(), len: 0 };
        assert!(encode(encoder(ReferenceCoding::Br), directory.path(), &[&missing]).is_err());
    }
}
