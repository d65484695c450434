//! Configuration files: each text is a valid configuration or has errors on lines that exist, and a displayed configuration parses
//! back to the same values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon::config::{CliFlags, CommandKind, ConfigFile, ResolvedConfig, read};

fuzz_target!(|text: &str| {
    match settled(text) {
        Ok(settled) => {
            let shown = settled.toml();
            let again = settled_again(&shown);
            assert_eq!(values(&shown), values(&again.toml()), "{text}");
            assert_eq!(settled.config.sites.len(), again.config.sites.len());
        }
        Err(faults) => {
            assert!(faults.count() > 0);
            assert_eq!(faults.lines().len(), faults.count());
            let line_count = text.split('\n').count();
            for line in faults.lines() {
                let number = line.split(':').next().and_then(|number| number.parse::<usize>().ok());
                assert!(number.is_none_or(|number| (1..=line_count).contains(&number)), "{line}");
            }
            // Messages contain no control characters but line ends.
            assert!(faults.to_string().chars().all(|char| char == '\n' || !char.is_control()), "{faults}");
        }
    }
});

fn settled(text: &str) -> Result<ResolvedConfig, tarpon::config::ConfigErrors> {
    let file = ConfigFile { path: "/etc/tarpon.toml".into(), text: text.to_owned() };
    read(Some(&file), &CliFlags::default(), CommandKind::Serve)
}

fn settled_again(shown: &str) -> ResolvedConfig {
    settled(shown).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Returns the values without their sources, which change when the text is read again.
fn values(shown: &str) -> Vec<&str> {
    shown.lines().map(|line| line.rsplit_once("  # ").map_or(line, |(value, _)| value)).collect()
}
