//! Packing: how long does it take, and how small does it get, beside the encoders that everybody knows?
//!
//! ```text
//! site ─▶ tarpon pack ─▶ served ─▶ each file asked for in each coding ─▶ bytes of the answers
//!     └─▶ brotli, zopfli, zstd, for each file that was coded ──────────▶ bytes that they write
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

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::Trouble;
use crate::client::read_response;
use crate::limit;
use crate::machine::Machine;
use crate::peer::{Form, Server, Stage, run};
use crate::record::{self, Keeper, Record, file_name};
use crate::site;
use crate::table::{Column, NONE, Report, Table, mib, thousands};

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Pages of the site that is generated.
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// How much time coding may take, for all.
    #[arg(long, value_enum, default_value = "best")]
    effort: Effort,
    /// The other site, with an index.html; by default the documentation of Python, from the package python3-doc.
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// The program tarpon; by default the one beside this one.
    #[arg(long, value_name = "PATH")]
    tarpon: Option<PathBuf>,
    /// Writes everything measured to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Effort {
    Best,
    Balanced,
    Fast,
}

/// All that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pack {
    /// The command that makes another one like it.
    command: String,
    machine: Machine,
    effort: Effort,
    tarpon: String,
    /// What each reference encoder says it is, or is called.
    encoders: Vec<String>,
    sites: Vec<Site>,
}

/// One site, packed once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Site {
    name: String,
    files: usize,
    /// Bytes of all files.
    bytes: u64,
    /// Bytes of the packed site.
    packed: u64,
    /// Time `tarpon pack` took.
    elapsed_ns: u64,
    codings: Vec<Coded>,
}

/// One coding, over all files that come coded from the packed site if a client takes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Coded {
    coding: Coding,
    files: usize,
    /// Bytes of these files.
    plain: u64,
    /// Bytes of their contents as they are sent.
    tarpon: u64,
    /// Bytes that the reference encoder makes of them.
    reference: u64,
    /// Time it took.
    reference_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Coding {
    Br,
    Gzip,
    Zstd,
}

impl Coding {
    const ALL: [Coding; 3] = [Coding::Br, Coding::Gzip, Coding::Zstd];

    /// As in Accept-Encoding.
    fn name(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
        }
    }

    /// The reference encoder, with the arguments that let it write to its standard output.
    fn encoder(self, effort: Effort) -> &'static [&'static str] {
        match (self, effort) {
            (Coding::Br, Effort::Best) => &["brotli", "--quality=11", "--stdout"],
            (Coding::Br, Effort::Balanced) => &["brotli", "--quality=10", "--stdout"],
            (Coding::Br, Effort::Fast) => &["brotli", "--quality=5", "--stdout"],
            (Coding::Gzip, Effort::Best) => &["zopfli", "-c"],
            (Coding::Gzip, Effort::Balanced | Effort::Fast) => &["gzip", "-9", "--no-name", "--stdout"],
            (Coding::Zstd, Effort::Best) => &["zstd", "--ultra", "-22", "--quiet", "--stdout"],
            (Coding::Zstd, Effort::Balanced) => &["zstd", "-15", "--quiet", "--stdout"],
            (Coding::Zstd, Effort::Fast) => &["zstd", "-9", "--quiet", "--stdout"],
        }
    }
}

/// Measures, prints the tables, and keeps the record.
pub(crate) fn main(options: &Options) -> Result<(), Trouble> {
    let keeper = Keeper::open(options.out.as_deref())?;
    let machine = Machine::here();
    let encoders = Coding::ALL.map(|coding| version(coding, options.effort));
    let encoders = encoders.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (given, given_name) = match &options.site {
        Some(site) => (site.clone(), "given site".into()),
        None => (documentation()?, "documentation of Python".to_owned()),
    };
    let index = given.join(PAGE);
    let index = fs::read(&index).map_err(|error| format!("{}: {error}", index.display()))?;
    let documented = set(options, index)?;
    // Links may lead to other packages.
    run(Command::new("cp").arg("-rL").arg(given.join(".")).arg(documented.site()))?;
    let generated = set(options, limit::content(1024))?;
    site::write(&generated.site(), options.files as usize)?;

    let tarpon = documented.tarpon_version()?;
    let mut sites = Vec::new();
    for (name, stage) in [(given_name, documented), ("generated pages".into(), generated)] {
        sites.push(measure(&stage, name, options.effort)?);
    }
    let command = options.command();
    keeper.keep(&Record::Pack(Pack { command, machine, effort: options.effort, tarpon, encoders, sites }))
}

fn set(options: &Options, index: Vec<u8>) -> Result<Stage, Trouble> {
    Stage::set(&env::temp_dir(), (PAGE, index), options.tarpon.as_deref(), None)
}

/// Packs a site, asks for all of it, and has the reference encoders do the same.
fn measure(stage: &Stage, name: String, effort: Effort) -> Result<Site, Trouble> {
    let files = list(&stage.site())?;
    eprintln!("{name}: packing {} files", thousands(files.len()));
    let packed = stage.site_as(Form::Packed);
    let effort_name = effort.to_possible_value().expect("no variant is hidden").get_name().to_owned();
    let start = Instant::now();
    run(&mut stage.pack(&stage.site(), &packed, &effort_name))?;
    let elapsed_ns = start.elapsed().as_nanos() as u64;

    let running = stage.start(Server::TarponEpollPacked)?;
    let mut codings = Vec::new();
    for coding in Coding::ALL {
        // A connection for each: while an encoder works, a server may well close one that waits.
        let mut stream = TcpStream::connect(running.address())?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let (mut sent, mut coded_files) = (0, Vec::new());
        for file in &files {
            let (is_coded, len) = ask(&mut stream, running.address(), &file.name, coding)?;
            if is_coded {
                sent += len;
                coded_files.push(file);
            } else if len != file.len {
                return Err(format!("/{} comes with another length", file.name).into());
            }
        }
        eprintln!("{name}: {} for {} of them", coding.encoder(effort)[0], thousands(coded_files.len()));
        let start = Instant::now();
        let reference = encode(coding.encoder(effort), &stage.site(), &coded_files)?;
        codings.push(Coded {
            coding,
            files: coded_files.len(),
            plain: coded_files.iter().map(|file| file.len).sum(),
            tarpon: sent,
            reference,
            reference_ns: start.elapsed().as_nanos() as u64,
        });
    }
    let bytes = files.iter().map(|file| file.len).sum();
    Ok(Site { name, files: files.len(), bytes, packed: fs::metadata(&packed)?.len(), elapsed_ns, codings })
}

/// A file of a site.
struct File {
    /// Its path, without a slash before it.
    name: String,
    len: u64,
}

/// All files that are served: dotfiles are not.
fn list(site: &Path) -> Result<Vec<File>, Trouble> {
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
                    let name = path.strip_prefix(site)?.to_str().ok_or("a name that is not UTF-8")?;
                    files.push(File { name: name.to_owned(), len: metadata.len() });
                }
            }
        }
    }
    // The longest first: none of them is begun when all else is done.
    files.sort_by(|one, other| (other.len, &one.name).cmp(&(one.len, &other.name)));
    Ok(files)
}

/// Asks for a file as a client that takes this coding. Returns whether it comes coded, and the length of the content.
fn ask(
    stream: &mut TcpStream,
    server: SocketAddr,
    name: &str,
    coding: Coding,
) -> Result<(bool, u64), Trouble> {
    let (path, coding) = (escaped(name), coding.name());
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {server}\r\nAccept-Encoding: {coding}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut wire = Vec::new();
    let extent = read_response(stream, &mut wire).map_err(|error| format!("/{path}: {error}"))?;
    let head = String::from_utf8_lossy(&wire[..extent.head_len]).to_ascii_lowercase();
    let is_coded = head.lines().any(|line| line == format!("content-encoding: {coding}"));
    Ok((is_coded, extent.content_len as u64))
}

/// A path as it stands in a request: RFC 3986, section 2.1.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let escape = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(escape).collect()
}

/// Runs an encoder for each file, on all cores. Returns how many bytes it wrote.
fn encode(encoder: &[&str], site: &Path, files: &[&File]) -> Result<u64, Trouble> {
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
    let workers = thread::available_parallelism()?.get();
    let written = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let written = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        written.sum::<Result<u64, String>>()
    });
    Ok(written.map_err(|error| format!("{}: {error}", encoder[0]))?)
}

/// What an encoder says it is. Fails where it is not installed.
fn version(coding: Coding, effort: Effort) -> Result<String, Trouble> {
    let encoder = coding.encoder(effort);
    let program = encoder[0];
    // Zopfli has no such option: it takes it for a file, and ends.
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}; install it (Debian: {program})"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let number = said.split([' ', ',', 'v', '\n']).find(|word| {
        word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    });
    let level = encoder.iter().filter(|argument| argument.contains(|letter: char| letter.is_ascii_digit()));
    Ok([program].into_iter().chain(number).chain(level.copied()).collect::<Vec<_>>().join(" "))
}

/// The documentation of Python, where Debian has it.
fn documentation() -> Result<PathBuf, Trouble> {
    let packages = fs::read_dir("/usr/share/doc").map_err(|error| format!("/usr/share/doc: {error}"))?;
    let mut found: Vec<PathBuf> = packages.flatten().map(|entry| entry.path().join("html")).collect();
    found.retain(|html| {
        html.to_string_lossy().contains("/python3") && html.join("library/functions.html").is_file()
    });
    found.sort();
    Ok(found
        .into_iter()
        .next()
        .ok_or("no documentation of Python; install python3-doc, or name a site with --site")?)
}

impl Options {
    fn command(&self) -> String {
        let effort = self.effort.to_possible_value().expect("no variant is hidden");
        record::command(
            "pack",
            &[
                ("files", self.files.to_string()),
                ("effort", effort.get_name().to_owned()),
                ("site", file_name(self.site.as_deref())),
                ("tarpon", file_name(self.tarpon.as_deref())),
            ],
        )
    }
}

/// A table for each site: sizes in each coding, and times.
pub(crate) fn report(pack: &Pack) -> Report {
    let tables = pack.sites.iter().map(|site| {
        let heading =
            format!("{}: {} files, {} MiB", site.name, thousands(site.files), mib(site.bytes as f64));
        (Some(heading), Table { columns: COLUMNS, rows: rows(site) })
    });
    Report { tables: tables.collect(), caption: caption(pack), command: pack.command.clone() }
}

const COLUMNS: &[Column] = &[
    ("coding", Some("coding")),
    ("files", Some("files")),
    ("plain", Some("plain, bytes")),
    ("tarpon", Some("tarpon, bytes")),
    ("reference", Some("reference, bytes")),
    ("of it", Some("tarpon of reference")),
    ("tarpon s", Some("tarpon, s")),
    ("reference s", Some("reference, s")),
];

fn rows(site: &Site) -> Vec<Vec<String>> {
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    let count = |bytes: u64| thousands(bytes as usize);
    let mut rows: Vec<_> = site
        .codings
        .iter()
        .map(|coded| {
            vec![
                coded.coding.name().into(),
                thousands(coded.files),
                count(coded.plain),
                count(coded.tarpon),
                count(coded.reference),
                format!("{:.2}%", coded.tarpon as f64 / coded.reference as f64 * 100.0),
                NONE.into(),
                seconds(coded.reference_ns),
            ]
        })
        .collect();
    rows.push(vec![
        "all, in one archive".into(),
        thousands(site.files),
        count(site.bytes),
        count(site.packed),
        NONE.into(),
        NONE.into(),
        seconds(site.elapsed_ns),
        seconds(site.codings.iter().map(|coded| coded.reference_ns).sum()),
    ]);
    rows
}

fn caption(pack: &Pack) -> String {
    format!(
        "{} with its effort at {}, beside {}, run file by file, as many at a time as there are cores, on those files that the \
         packed site has in that coding. Bytes are those of contents, as they come from the packed site. One run. {}.",
        pack.tarpon,
        pack.effort.to_possible_value().expect("no variant is hidden").get_name(),
        pack.encoders.join(", "),
        pack.machine,
    )
}

/// What a site has in any case.
const PAGE: &str = "index.html";

/// Longest wait for a file.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_request_is_escaped() {
        for (path, want) in [("a/b-c_1.html", "a/b-c_1.html"), ("50% ä?", "50%25%20%C3%A4%3F")] {
            assert_eq!(escaped(path), want);
        }
    }

    #[test]
    fn an_encoder_runs_for_each_file() {
        let directory = tempfile::tempdir().unwrap();
        let page = site::page(3);
        fs::write(directory.path().join("page.html"), &page).unwrap();
        let file = File { name: "page.html".into(), len: page.len() as u64 };
        let written = encode(Coding::Zstd.encoder(Effort::Fast), directory.path(), &[&file, &file]).unwrap();
        assert!(
            written.is_multiple_of(2) && written > 100 && written < 2 * file.len,
            "{written} of {}",
            file.len
        );
        let missing = File { name: "missing".into(), len: 0 };
        assert!(encode(Coding::Br.encoder(Effort::Fast), directory.path(), &[&missing]).is_err());
    }
}
