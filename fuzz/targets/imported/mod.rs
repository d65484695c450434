//! What holds of every import, for the fuzz targets of each language.

use std::path::Path;
use tarpon::{
    config::{CliFlags, CommandKind, ConfigFile, read},
    import::{HashOutput, ImportSyntax, SourceAccess, import_text},
};

/// Imports a text. The result is an error with its place, or a valid configuration and a report without control characters.
pub fn check(syntax: ImportSyntax, text: &str) {
    let is_clean = |text: &str| text.chars().all(|char| char == '\n' || !char.is_control());
    match import_text(syntax, Path::new("file"), text, SourceAccess::Nothing, HashOutput::Write) {
        Ok(imported) => {
            let file = ConfigFile::new("tarpon.toml", imported.toml.clone());
            let resolved = read(Some(&file), &CliFlags::default(), CommandKind::Serve);
            assert!(resolved.is_ok(), "{text}\n{}\n{}", imported.toml, resolved.unwrap_err());
            let line_count = text.split('\n').count();
            for remark in imported.report.remarks() {
                assert!((1..=line_count).contains(&(remark.line as usize)), "{text}\n{remark:?}");
            }
            assert!(
                is_clean(&imported.toml) && is_clean(&imported.report.to_string()),
                "{}",
                imported.report
            );
        }
        Err(error) => assert!(error.to_string().starts_with("cannot import file:"), "{error}"),
    }
}
