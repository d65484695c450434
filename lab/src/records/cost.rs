//! The record of instructions per request: the accepted counts.

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// The accepted counts, and the compiler of the programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CostRecord {
    pub(crate) rustc: String,
    pub(crate) counts: Vec<InstructionCount>,
}

/// The instructions of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InstructionCount {
    pub(crate) name: String,
    /// The profile of Cargo that built the program.
    pub(crate) profile: String,
    pub(crate) instructions: u64,
}

/// The share by which a count may exceed the accepted one.
const TOLERANCE: f64 = 0.02;

impl CostRecord {
    /// Returns the accepted count of the same name and profile.
    pub(crate) fn accepted(&self, count: &InstructionCount) -> Option<u64> {
        let accepted = self.counts.iter().find(|accepted| accepted.is_like(count))?;
        Some(accepted.instructions)
    }

    /// Checks that no count is much higher than the accepted one.
    ///
    /// # Errors
    /// Names all counts that are too high or have no accepted count.
    pub(crate) fn check(&self, measured: &CostRecord) -> Result<(), LabError> {
        let problem = |count: &InstructionCount| {
            let InstructionCount { name, profile, instructions } = count;
            match self.accepted(count) {
                None => Some(format!("{name} ({profile}): no accepted count")),
                Some(accepted) if *instructions as f64 > accepted as f64 * (1.0 + TOLERANCE) => {
                    Some(format!("{name} ({profile}): {instructions} instructions, accepted are {accepted}"))
                }
                Some(_) => None,
            }
        };
        let mut problems: Vec<String> = measured.counts.iter().filter_map(problem).collect();
        if problems.is_empty() {
            return Ok(());
        }
        if self.rustc != measured.rustc {
            problems.push(format!(
                "the compiler is {}, that of the accepted counts {}",
                measured.rustc, self.rustc
            ));
        }
        problems.push("to accept these counts: `tarpon-lab cost --accept`, with the same options".into());
        Err(problems.join("\n  ").into())
    }

    /// Replaces the counts of the same name and profile, and adds the others.
    pub(crate) fn accept(&mut self, measured: &CostRecord) {
        self.rustc.clone_from(&measured.rustc);
        for count in &measured.counts {
            match self.counts.iter_mut().find(|accepted| accepted.is_like(count)) {
                Some(accepted) => accepted.instructions = count.instructions,
                None => self.counts.push(count.clone()),
            }
        }
    }
}

impl InstructionCount {
    fn is_like(&self, other: &InstructionCount) -> bool {
        (&self.name, &self.profile) == (&other.name, &other.profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_higher_count_of_the_same_profile_fails() {
        #[rustfmt::skip]
        let cases = [
            // case               profile    instructions  passes
            ("the same",          "release", 1000,         true),
            ("less",              "release", 10,           true),
            ("a little more",     "release", 1020,         true),
            ("more",              "release", 1021,         false),
            ("another profile",   "dev",     1000,         false),
        ];
        let record = |profile: &str, instructions| CostRecord {
            rustc: "rustc 1".into(),
            counts: vec![InstructionCount {
                name: "conn-small".into(),
                profile: profile.into(),
                instructions,
            }],
        };
        for (name, profile, instructions, passes) in cases {
            let (mut accepted, measured) = (record("release", 1000), record(profile, instructions));
            assert_eq!(accepted.check(&measured).is_ok(), passes, "{name}");
            accepted.accept(&measured);
            assert!(accepted.check(&measured).is_ok(), "{name}, once accepted");
        }
    }
}
