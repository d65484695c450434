//! The output of an experiment: a report on the terminal, and a record in a file.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::LabError;
use crate::records::LabRecord;
use crate::report::report;

/// The result file, if `--out` names one.
pub(crate) struct RecordFile(Option<File>);

impl RecordFile {
    /// Opens the file before the measurement, so that a wrong path fails early. Keeps its old content until
    /// [`finish`](RecordFile::finish).
    pub(crate) fn open(path: Option<&Path>) -> Result<RecordFile, LabError> {
        let create = |path: &Path| {
            path.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| File::options().write(true).create(true).truncate(false).open(path))
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        Ok(RecordFile(path.map(create).transpose()?))
    }

    /// Prints the report of a record, and writes the record.
    pub(crate) fn finish(self, record: &LabRecord) -> Result<(), LabError> {
        print!("{}", report(record).plain());
        if let Some(mut file) = self.0 {
            file.set_len(0)?;
            serde_json::to_writer_pretty(&mut file, record)?;
            writeln!(file)?;
        }
        Ok(())
    }
}
