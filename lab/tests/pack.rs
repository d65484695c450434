//! Packing of small sites.

mod common;

use std::fs;

use common::{measured, reported};

#[test]
fn a_small_measurement_of_packing_leaves_a_record_and_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let site = directory.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("index.html"), "<p>All that is said, is said twice.\n".repeat(100)).unwrap();
    fs::write(site.join("50% of it.txt"), "Nothing is coded that is so short.").unwrap();
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
            assert!(number("tarpon") < number("plain") / 1.5, "{coding}");
            let of_reference = number("tarpon") / number("reference");
            assert!((0.8..1.2).contains(&of_reference), "{coding}");
        }
    }
    let document = reported(directory.path());
    assert!(document.contains("**generated pages: 11 files, "), "{document}");
}
