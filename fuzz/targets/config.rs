//! Any text is a valid configuration, or has errors with positions within it. A printed configuration has the same values when it is
//! read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon::config::{CliFlags, CommandKind, ConfigErrors, ConfigFile, ResolvedConfig, read};

fuzz_target!(|text: &str| {
    match resolve(text) {
        Ok(resolved) => {
            let shown = resolved.toml();
            let again = resolve_valid(&shown);
            assert_eq!(values(&shown), values(&again.toml()), "{text}");
            assert_eq!(resolved.config.sites.len(), again.config.sites.len());
        }
        Err(errors) => {
            assert!(errors.count() > 0);
            assert_eq!(errors.lines().len(), errors.count());
            let line_count = text.split('\n').count();
            for line in errors.lines() {
                let number = line.split(':').next().and_then(|number| number.parse::<usize>().ok());
                assert!(number.is_none_or(|number| (1..=line_count).contains(&number)), "{line}");
            }
            // The output has no control characters except newlines.
            assert!(errors.to_string().chars().all(|char| char == '\n' || !char.is_control()), "{errors}");
        }
    }
});

fn resolve(text: &str) -> Result<ResolvedConfig, ConfigErrors> {
    let file = ConfigFile::new("/etc/tarpon.toml", text);
    read(Some(&file), &CliFlags::default(), CommandKind::Serve)
}

fn resolve_valid(shown: &str) -> ResolvedConfig {
    resolve(shown).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Returns the lines without their comments: the origins differ.
fn values(shown: &str) -> Vec<&str> {
    shown.lines().map(|line| line.rsplit_once("  # ").map_or(line, |(value, _)| value)).collect()
}
