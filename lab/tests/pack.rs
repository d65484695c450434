//! A short experiment on packing.

mod common;

use std::fs;

use common::{measured, reported};

#[test]
fn short_experiment_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let site = directory.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("index.html"), "<p>A line that repeats compresses well.\n".repeat(100)).unwrap();
    fs::write(site.join("50% off.txt"), "Too short to compress.").unwrap();
    let arguments = ["pack", "--effort=best", "--files=10", "--site", site.to_str().unwrap()];
    let (output, record) = measured(&arguments, directory.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record = record.expect("a record");
    for (at, files, coded) in [(0, 2, 1), (1, 11, 11)] {
        let site = &record["sites"][at];
        assert_eq!(site["files"], files, "{site}");
        for coding in site["codings"].as_array().unwrap() {
            assert_eq!(coding["files"], coded, "{site}");
            let number = |name: &str| coding[name].as_f64().unwrap();
            assert!(number("tarpon") < number("original") / 1.5, "{coding}");
            let ratio = number("tarpon") / number("reference");
            assert!((0.8..1.2).contains(&ratio), "{coding}");
        }
    }
    let document = reported(directory.path());
    assert!(document.contains("**generated pages: 11 files, "), "{document}");
}
