//! Measures how long the rules of a site take with a request that none of them matches.
//!
//! `cargo bench -p tarpon-pack --bench rules`. Under `cargo test` the bench runs once on a few rules, as a check.

use bytes::Bytes;
use std::hint::black_box;
use std::time::Instant;
use std::{fs, io::Cursor};
use tarpon_pack::{BuildCache, PackOptions, pack_dir};
use tarpon_site::{Image, rules::RuleRequest};

fn main() {
    let measured = std::env::args().any(|arg| arg == "--bench");
    let (rule_count, rounds) = if measured { (1_000, 300) } else { (10, 3) };

    #[rustfmt::skip]
    let rules: &[(&str, WriteRule)] = &[
        ("other text",          |number| format!("/other{number}/:x /b/:x\n")),
        ("placeholders",        |number| format!("/:x/c{number} /b/:x\n")),
        ("one parameter",       |_| "/a/:x p=:p /b/:x/:p\n".to_owned()),
        ("different parameters", |number| format!("/a/:x p{number}=:p /b/:x/:p\n")),
    ];
    let segment = "s".repeat(3_000);
    #[rustfmt::skip]
    let requests: &[(&str, &str, String)] = &[
        ("short",                "/a/s", "q=1".to_owned()),
        ("3 KB path",            &format!("/a/{segment}"), "q=1".to_owned()),
        ("12 KB query",          "/a/s", "pp=1&".repeat(2_400)),
        ("12 KB query of bare names", "/a/s", "p&".repeat(6_000)),
    ];
    for (name, rule) in rules {
        let image = image(&(0..rule_count).map(rule).collect::<String>());
        let rules = image.rules().unwrap().expect("rules");
        for (request, path, query) in requests {
            let request_of =
                RuleRequest { path: path.as_bytes(), query: Some(query.as_bytes()), exists: false };
            let begin = Instant::now();
            for _ in 0..rounds {
                assert!(black_box(rules.first_match(black_box(request_of))).is_none());
            }
            let ns = begin.elapsed().as_nanos() / rounds;
            println!("{rule_count} rules, {name}; {request}: {ns} ns");
        }
    }
}

/// Writes the line of the rule with a number.
type WriteRule = fn(usize) -> String;

/// Returns the image of a site with these rules.
fn image(rules: &str) -> Image {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("_redirects"), rules).expect("a file");
    let mut out = Cursor::new(Vec::new());
    pack_dir(dir.path(), &mut out, &PackOptions::new(0), &mut BuildCache::default()).expect("packs");
    Image::new(Bytes::from(out.into_inner())).expect("an image")
}
