//! Forged archives: whatever their bytes are, each response ends where its client expects it to end.

use crate::common::{
    client::TestClient,
    distinct_bytes, seeds_factor,
    server::{EmbeddedServer, settings_with_http2},
    site,
};
use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
};
use tarpon::{
    CompressionEffort, Engine, Progress, Site, SitePacking, SiteSource, UnknownHost, VirtualHost,
    VirtualHosts, pack,
};
use tarpon_site::{
    Entry, Image,
    format::{HEADER_LEN, Header, SECTION_LEN, SectionRow, hash},
    packed::{IMAGE_AT, image_in},
};
use tempfile::TempDir;

#[test]
fn forged_length_does_not_split_a_response() {
    let sites = ForgedSites::new();
    let forged: Vec<_> = (0..4).flat_map(|way| sites.lengths_forged(way)).collect();
    assert!(forged.len() > 100, "{} archives", forged.len());
    let statuses = sites.statuses(&forged);
    assert!(statuses.iter().any(|status| status == "500"), "no forged length was detected");
}

#[test]
fn responses_of_forged_archives_have_correct_framing() {
    let sites = ForgedSites::new();
    let forged: Vec<_> = (0..100 * seeds_factor() as u64).map(|seed| sites.forged(seed)).collect();
    let statuses = sites.statuses(&forged);
    for status in ["200", "206", "301", "304", "404", "500"] {
        assert!(statuses.iter().any(|got| got == status), "no response with status {status}");
    }
}

/// The number of requests at a time: fewer than the server allows.
const STREAM_COUNT: usize = 100;

/// A packed site with all kinds of entries, from which the tests make forged archives.
struct ForgedSites {
    dir: TempDir,
    valid: Vec<u8>,
    /// The requests: method, target and fields, separated by tabs.
    requests: Vec<String>,
}

impl ForgedSites {
    fn new() -> ForgedSites {
        let dir = tempfile::tempdir().expect("a directory");
        // Random numbers, which only a dictionary compresses well.
        let mut random = SplitMix(7);
        let lines: String =
            (0..600).map(|at| format!("const a{at} = {};\n", random.below(1 << 40))).collect();
        let script = |release: &str| format!("{lines}// {release}\n");
        let old = dir.path().join("old.tar");
        pack_of(&site(&[("script.js", script("old"))]), &old, &[]);
        let files = site(&[
            ("index.html", "<p>in a word, hello".repeat(40).into_bytes()),
            ("script.js", script("new").into_bytes()),
            ("large.bin", distinct_bytes(40_000)),
            ("dir/index.html", b"a directory".to_vec()),
            ("list/x", b"x".to_vec()),
            ("404.html", b"nothing here".repeat(40)),
            ("de/404.html", b"nichts da".to_vec()),
            (
                "_redirects",
                b"/old /new 302\n/news/* /blog/:splat 301\n/ask id=:id /dir/:id 303\n/gone /404.html 410\n/sent/* /index.html 200\n\
                  /x/:dir/* /:dir/404.html 404\n"
                    .to_vec(),
            ),
            ("_headers", b"/dir/*\n  X-Dir: dir\n/news/*\n  X-News: news\n".to_vec()),
        ]);
        let path = dir.path().join("valid.tar");
        pack_of(&files, &path, &[old]);
        let valid = fs::read(&path).expect("an archive");
        let requests = requests(&image_of(&valid).expect("a valid archive"));
        ForgedSites { dir, valid, requests }
    }

    /// Returns archives with one forged Content-Length each, for every other length in the fields.
    fn lengths_forged(&self, way: u8) -> Vec<Vec<u8>> {
        const LENGTH: &[u8] = b"Content-Length: ";
        let places = self.valid.windows(LENGTH.len()).enumerate().filter(|(_, bytes)| *bytes == LENGTH);
        let forge = |(at, _): (usize, _)| {
            let mut bytes = self.valid.clone();
            let digits = &mut bytes[at + LENGTH.len()..];
            let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            match way {
                0 => digits[..len].fill(b'0'),
                1 => digits[len - 1] = if digits[len - 1] == b'1' { b'2' } else { b'1' },
                2 => bytes[at..at + 4].copy_from_slice(b"\r\n\r\n"),
                _ => bytes[at] = b'X',
            }
            seal(&mut bytes);
            bytes
        };
        places.skip(usize::from(way % 2)).step_by(2).map(forge).collect()
    }

    /// Returns an archive with random changes.
    fn forged(&self, seed: u64) -> Vec<u8> {
        let mut random = SplitMix(seed);
        let mut bytes = self.valid.clone();
        let image_end = IMAGE_AT as usize + image_of(&self.valid).expect("a valid archive").len() as usize;
        for _ in 0..1 + random.below(4) {
            let at = IMAGE_AT as usize
                + HEADER_LEN
                + random.below(image_end - IMAGE_AT as usize - HEADER_LEN - 40);
            // Most bytes belong to contents, so half of the changes start at a field line or in a record.
            let line = bytes[at..image_end]
                .windows(2)
                .position(|bytes| bytes == b"\r\n")
                .map_or(at, |found| at + found);
            let record = at.next_multiple_of(64) + random.below(64);
            let pieces: &[&[u8]] = &[
                b"\r\n\r\n",
                b"\n",
                b"\r",
                b"\r\nTE: trailers",
                b"\r\nContent-Length: 0\r\n\r\n",
                b"\r\n\r\nHTTP/1.1 200 OK\r\n",
                b"\0",
                b":",
                b"\r\n ",
            ];
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[record] = random.below(256) as u8,
                2 => {
                    let digit = bytes[line..image_end]
                        .iter()
                        .position(u8::is_ascii_digit)
                        .map_or(at, |found| line + found);
                    bytes[digit] = b'0' + random.below(10) as u8;
                }
                _ => {
                    let piece = pieces[random.below(pieces.len())];
                    let at = line + random.below(24);
                    bytes[at..at + piece.len()].copy_from_slice(piece);
                }
            }
        }
        seal(&mut bytes);
        bytes
    }

    /// Sends all requests to a site over HTTP/2. The client checks that each content has the length that its head tells.
    fn check_over_http2(&self, address: SocketAddr, host: &str) {
        let mut client = TestClient::connect_http2(address);
        for requests in self.requests.chunks(STREAM_COUNT) {
            let lines = requests.iter().map(|request| {
                let mut parts = request.split('\t');
                let [method, target] = [(); 2].map(|()| parts.next().expect("a method and a target"));
                let fields: String = parts.map(|field| format!("{field}\r\n")).collect();
                format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
            });
            client.send(lines.collect::<String>());
            for request in requests {
                let is_head = request.starts_with("HEAD\t");
                let response = if is_head { client.try_head() } else { client.try_response() };
                let response = response.unwrap_or_else(|error| panic!("{host}: {request}: {error}"));
                assert!(
                    response.field("Content-Length").is_some() || [204, 304].contains(&response.status),
                    "{request}"
                );
            }
        }
    }

    /// Serves the archives that open, sends all requests to each of them, and returns the statuses. A response that the client rejects
    /// fails the test.
    fn statuses(&self, archives: &[Vec<u8>]) -> Vec<String> {
        let opened: Vec<_> =
            archives.iter().enumerate().filter(|(_, bytes)| image_of(bytes).is_some()).collect();
        assert!(opened.len() * 2 > archives.len(), "{} of {} archives open", opened.len(), archives.len());
        let mut statuses = Vec::new();
        for chunk in opened.chunks(100) {
            let known = site(&[("known", "what is known")]);
            let mut sites = vec![host("known", Site::from_dir(known.path()).expect("a site"))];
            let mut input = String::new();
            for (number, bytes) in chunk {
                let path = self.dir.path().join(format!("{number}.tar"));
                fs::write(&path, bytes).expect("a file");
                let name = format!("forged-{number}");
                sites.push(host(&name, Site::from_archive(&path, "").expect("a valid archive")));
                input.extend(self.requests.iter().map(|request| format!("{name}\t{request}\n")));
            }
            let served = EmbeddedServer::sites(
                &settings_with_http2(Engine::Epoll, 1),
                VirtualHosts::new(sites, UnknownHost::Refused).expect("unique names"),
            );
            let mut client = Command::new("python3")
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/framing.py"))
                .args([&served.address.to_string(), "/known", "what is known"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("python3");
            let mut stdin = client.stdin.take().expect("a pipe");
            let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
            let output = client.wait_with_output().expect("a child");
            assert!(output.status.success(), "a response has a wrong length");
            writer.join().expect("no panic").expect("the client reads all input");
            let out = String::from_utf8(output.stdout).expect("text");
            statuses.extend(out.lines().map(str::to_owned));
            chunk
                .iter()
                .for_each(|(number, _)| self.check_over_http2(served.address, &format!("forged-{number}")));
            assert!(served.stop().is_ok());
        }
        statuses
    }
}

fn pack_of(site: &TempDir, target: &Path, dictionaries: &[std::path::PathBuf]) {
    let packing = SitePacking {
        effort: CompressionEffort::Fast,
        dictionaries: dictionaries.to_vec(),
        ..SitePacking::new(target)
    };
    let mut source = SiteSource { path: site.path().into(), ..SiteSource::default() };
    source.policy.listings = true;
    pack(&source, &packing, &Progress::default()).expect("packs");
}

fn host(name: &str, site: Site) -> VirtualHost {
    VirtualHost { names: vec![name.parse().expect("a name")], ..site.into() }
}

/// Returns requests for every path that use all parts of its record.
fn requests(image: &Image) -> Vec<String> {
    let paths = image.entries().map(|(path, _)| String::from_utf8(path.to_vec()).expect("text"));
    let mut paths: Vec<_> = paths.filter(|path| path.starts_with('/')).collect();
    paths.extend(
        ["/missing", "/de/missing", "/news/a", "/ask?id=7", "/sent/a", "/x/de/a", "/x/none/a"]
            .map(str::to_owned),
    );
    let (_, Entry::File(script)) =
        image.entries().find(|(path, _)| *path == b"/script.js").expect("a script")
    else {
        panic!("no file");
    };
    let (dictionary, ..) = image.all_deltas(script).next().expect("a delta");
    let dictionary = format!("Accept-Encoding: dcb, dcz\tAvailable-Dictionary: :{}:", base64(&dictionary));
    let codings = ["", "\tAccept-Encoding: br", "\tAccept-Encoding: gzip", "\tAccept-Encoding: zstd"];
    let mut requests = Vec::new();
    for path in &paths {
        requests.extend(codings.iter().map(|coding| format!("GET\t{path}{coding}")));
        requests.extend(["", codings[1]].map(|coding| format!("GET\t{path}\tIf-None-Match: *{coding}")));
        requests.push(format!("HEAD\t{path}"));
        requests.push(format!("GET\t{path}{}q=//x", if path.contains('?') { '&' } else { '?' }));
    }
    let ranges = ["1-2", "0-0,4-5", "999999-"].map(|range| format!("GET\t/large.bin\tRange: bytes={range}"));
    requests.extend(ranges);
    requests.extend([
        format!("GET\t/script.js\t{dictionary}"),
        format!("GET\t/script.js\tIf-None-Match: *\t{dictionary}"),
        "GET\t/list/\tAccept: application/json".to_owned(),
        "GET\t/\tIf-Match: \"a\"".to_owned(),
    ]);
    requests.extend(["OPTIONS\t/", "POST\t/", "GET\t/%zz", "GET\t/\tExpect: a"].map(str::to_owned));
    requests
}

/// Returns the image of a servable archive.
fn image_of(archive: &[u8]) -> Option<Image> {
    let place = image_in(archive, archive.len() as u64).ok()??;
    Image::new(archive[place.at as usize..][..place.len as usize].to_vec().into()).ok()
}

/// Recomputes the checksums that opening an archive verifies.
fn seal(archive: &mut [u8]) {
    let image = &mut archive[IMAGE_AT as usize..];
    let header = Header::decode(image.first_chunk().expect("a header")).expect("an untouched header");
    for number in 0..header.section_count as usize {
        let at = header.sections_at as usize + number * SECTION_LEN;
        let row = SectionRow::decode(image[at..].first_chunk().expect("a row"));
        let bytes = image.get(row.at as usize..).and_then(|bytes| bytes.get(..row.len as usize));
        let sum = bytes.map_or(0, hash);
        image[at..at + SECTION_LEN].copy_from_slice(&SectionRow { hash: sum, ..row }.encode());
    }
    let tables_hash = hash(&image[header.pages_at as usize..header.len as usize]);
    let body_hash = hash(&image[HEADER_LEN..header.pages_at as usize]);
    image[..HEADER_LEN].copy_from_slice(&Header { tables_hash, body_hash, ..header }.encode());
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = bytes.chunks(3).flat_map(|three| {
        let word = (0..3).fold(0, |word, at| word << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        (0..4).map(move |at| match at <= three.len() {
            true => char::from(DIGITS[(word >> (18 - 6 * at)) as usize & 63]),
            false => '=',
        })
    });
    digits.collect()
}

/// A random number generator, splitmix64. A seed determines the sequence.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}
