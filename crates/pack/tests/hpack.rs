//! The HPACK blocks of an image, decoded by a decoder of others: the package `hpack` of Python.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use tarpon_pack::{
    CompressionEffort, Dialect, Dictionaries, PackInput, Policy, Progress, SiteOptions, pack_site, verify,
};
use tarpon_site::packed::image_in;
use tarpon_site::{Entry, FieldBlock, Image, STATUS_PAGE_CODES};

#[test]
fn each_block_has_the_fields_of_its_text() {
    let dir = tempfile::tempdir().expect("a directory");
    let release = |name: &str, line: &str| {
        let site = dir.path().join(name);
        write_site(&site, line);
        site
    };
    let (old, new) = (dir.path().join("old.tar"), dir.path().join("new.tar"));
    pack(&release("old", "an old line"), &old, &[]);
    pack(&release("new", "a new line"), &new, std::slice::from_ref(&old));
    let file = fs::File::open(&new).expect("an archive");
    let known = Dictionaries::open(&[old]).expect("an archive");
    let verified =
        verify(&file, &new, &known, NonZeroUsize::MIN, &Progress::default()).expect("a packed site");
    assert_eq!(verified.defects, []);

    let image = image_of(&new);
    let pairs = pairs_of(&image);
    let texts: BTreeSet<_> = pairs.iter().map(|(text, _)| String::from_utf8_lossy(text)).collect();
    for odd in
        ODD_FIELDS.lines().chain(["Content-Encoding: dcz", "Location: /", "Allow: ", "X-All: 1", "X-News: "])
    {
        assert!(texts.iter().any(|text| text.contains(odd.trim())), "no response has {odd}");
    }
    assert!(pairs.len() > 150, "{} blocks", pairs.len());
    assert_eq!(decoded_count(&pairs), pairs.len());
}

/// Fields with values that a coder may take for something else.
const ODD_FIELDS: &str = "  X-Empty-List: ,
  X-Quoted: \"a\\\\\"b\", {c}; ^`|~
  X-Inner: a\t b
  X-Unicode: \u{e9} \u{65e5}\u{672c}
  ACCEPT-ENCODING: gzip, deflate
  Set-Cookie: a=b; Path=/
  Link: </a.css>; rel=preload
";

fn write_site(site: &Path, line: &str) {
    let long = "default-src 'self' https://cdn.example.com; ".repeat(60);
    let files = [
        ("index.html", format!("<p>{line}").repeat(40)),
        ("script.js", (0..4_000).map(|at| format!("const a{at} = {};\n", at * at % 8_191)).collect::<String>() + line),
        ("ready.css", "p { color: red }\n".repeat(30)),
        ("ready.css.gz", "no gzip, so it is a file".to_owned()),
        ("x", "x".to_owned()),
        ("empty", String::new()),
        ("dir/index.html", "a directory".to_owned()),
        ("list/a b\u{e9}.txt", "listed".to_owned()),
        ("404.html", "nothing here".repeat(40)),
        ("de/404.html", "nichts da".to_owned()),
        (
            "_redirects",
            "/old /new#part 302\n/news/* /blog/:splat 301\n/ask id=:id /dir/:id 303\n/gone /404.html 410\n/sent/* /index.html 200\n\
             /x/:dir/* /:dir/404.html 404\n/away https://example.com/a?b=c 307\n"
                .to_owned(),
        ),
        (
            "_headers",
            format!("/*\n  X-All: 1\n/x\n{ODD_FIELDS}/news/*\n  X-News: {long}\n/dir/*\n  Cache-Control: max-age=9\n"),
        ),
    ];
    for (name, content) in files {
        let path = site.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }
}

fn pack(site: &Path, target: &Path, dictionaries: &[std::path::PathBuf]) {
    let options = SiteOptions {
        effort: CompressionEffort::Fast,
        workers: NonZeroUsize::MIN,
        max_mtime_s: 1_000_000_000,
        reuse: None,
        dictionaries,
        offer_dictionaries: true,
        program: None,
        programs: None,
        dialect: Dialect::Netlify,
        policy: &Policy { listings: true, ..Policy::default() },
    };
    pack_site(PackInput::Dir(site), target, &options, &Progress::default()).expect("packs");
}

fn image_of(archive: &Path) -> Image {
    let bytes = fs::read(archive).expect("an archive");
    let place = image_in(&bytes, bytes.len() as u64).expect("a good one").expect("a packed site");
    let image = Bytes::from(bytes).slice(place.at as usize..(place.at + place.len) as usize);
    Image::new(image).expect("an image")
}

/// Returns each text of an image that a server can send, with its block.
fn pairs_of(image: &Image) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let mut add = |fields: FieldBlock| {
        let block = image.hpack(fields).expect("in memory").expect("as packed");
        pairs.push((image.bytes(fields.text).to_vec(), image.bytes(block).to_vec()));
    };
    for (_, entry) in image.entries() {
        match entry {
            Entry::File(file) => {
                let coded = image.coded_variants(file).map(|(_, variant)| variant);
                let deltas = image.all_deltas(file).map(|(.., variant)| variant);
                for variant in coded.chain(deltas).chain([file.identity]) {
                    let fields = variant.fields();
                    let one_part = without_line(image, fields);
                    [fields, one_part, without_line(image, one_part)].into_iter().for_each(&mut add);
                    Some(variant.not_modified())
                        .filter(|fields| fields.text.len > 0)
                        .into_iter()
                        .for_each(&mut add);
                }
            }
            Entry::Redirect(redirect) => {
                add(redirect.fields());
                // With a query: what follows the line of Location, whose end may be a fragment.
                if redirect.before_query().len > 0 {
                    add(without_line(image, redirect.after_query()));
                }
            }
        }
    }
    STATUS_PAGE_CODES.into_iter().for_each(|code| add(image.status_page(code).fields));
    add(image.rules().expect("in memory").expect("rules").fields());
    pairs
}

/// Returns the fields without the first line, or the rest of it.
fn without_line(image: &Image, fields: FieldBlock) -> FieldBlock {
    let len = image.bytes(fields.text).iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    fields.skip(len as u32)
}

/// Decodes all blocks, and compares them with their texts. Returns their number.
fn decoded_count(pairs: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redbot/bin/python");
    let mut child = Command::new(python)
        .arg(root.join("tests/clients/hpack_fields.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a Python with the packages that tests/setup installs");
    let mut lines = String::new();
    let hex = |to: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| write!(to, "{byte:02x}").expect("a string"))
    };
    for (text, block) in pairs {
        hex(&mut lines, text);
        lines.push('\t');
        hex(&mut lines, block);
        lines.push('\n');
    }
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("a reader");
    let output = child.wait_with_output().expect("a child");
    assert!(output.status.success(), "a block has other fields than its text");
    String::from_utf8(output.stdout).expect("text").trim().parse().expect("a number")
}
