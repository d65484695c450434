//! The record of packing.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;

/// All numbers of an experiment on packing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) effort: PackEffort,
    /// Name and version of tarpon.
    pub(crate) tarpon: String,
    /// Name, version and level of each reference encoder.
    pub(crate) encoders: Vec<String>,
    pub(crate) sites: Vec<PackedSiteRecord>,
}

/// One site, packed once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PackedSiteRecord {
    pub(crate) name: String,
    pub(crate) files: usize,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Bytes of the packed site.
    pub(crate) packed: u64,
    /// Time of `tarpon pack`.
    pub(crate) elapsed_ns: u64,
    pub(crate) codings: Vec<CodingSizes>,
}

/// One content coding, over all files that the packed site offers in that coding.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CodingSizes {
    pub(crate) coding: ReferenceCoding,
    pub(crate) files: usize,
    /// Bytes of these files.
    pub(crate) original: u64,
    /// Bytes of their contents as the packed site sends them.
    pub(crate) tarpon: u64,
    /// Bytes that the reference encoder writes for them.
    pub(crate) reference: u64,
    /// Time of the reference encoder.
    pub(crate) reference_ns: u64,
}

/// How much CPU time `tarpon pack` spends on compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PackEffort {
    Best,
    Balanced,
    Fast,
}

impl PackEffort {
    /// Returns the value for `--effort`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PackEffort::Best => "best",
            PackEffort::Balanced => "balanced",
            PackEffort::Fast => "fast",
        }
    }
}

/// A content coding that has a reference encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReferenceCoding {
    Br,
    Gzip,
    Zstd,
}

impl ReferenceCoding {
    pub(crate) const ALL: [ReferenceCoding; 3] =
        [ReferenceCoding::Br, ReferenceCoding::Gzip, ReferenceCoding::Zstd];

    /// Returns the name in Accept-Encoding.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ReferenceCoding::Br => "br",
            ReferenceCoding::Gzip => "gzip",
            ReferenceCoding::Zstd => "zstd",
        }
    }
}
