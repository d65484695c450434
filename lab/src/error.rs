//! The error type of the lab.

/// An error as text for the terminal: what failed, where, and how to fix it.
pub(crate) type LabError = Box<dyn std::error::Error>;
