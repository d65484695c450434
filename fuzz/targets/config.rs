//! A configuration file, whatever it says: it is a configuration, or what is wrong with it lies within it; and a configuration
//! that is shown says the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon::config::{File, Flags, Program, Settled, read};

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
            // What a terminal gets has lines of its own and nothing that controls it.
            assert!(faults.to_string().chars().all(|char| char == '\n' || !char.is_control()), "{faults}");
        }
    }
});

fn settled(text: &str) -> Result<Settled, tarpon::config::Faults> {
    let file = File { path: "/etc/tarpon.toml".into(), text: text.to_owned() };
    read(Some(&file), &Flags::default(), Program::Serve)
}

fn settled_again(shown: &str) -> Settled {
    settled(shown).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Without who said it, which is another one now.
fn values(shown: &str) -> Vec<&str> {
    shown.lines().map(|line| line.rsplit_once("  # ").map_or(line, |(value, _)| value)).collect()
}
