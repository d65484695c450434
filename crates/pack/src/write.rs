//! Places everything in the image, in one pass; only the header is written last.
//!
//! ```text
//! per file:   [ record ][ path ][ fields of 304 ][ fields of 200 ][ content ]
//!             └ on 64                                             └ behind, or on 4096, or on disk
//! at the end: [ pages' texts ] [ pages ][ index ]   and back to 0: [ header ]
//! ```
//!
//! A record lies before its run, so that the way from one to the other is the next cache line.

use crate::content::{Body, Content};
use crate::error::PackError;
use crate::{fields, page};
use std::fs;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use tarpon_site::format::{
    CONTENT_ALIGN, HEADER_LEN, Header, Home, INDEX_ALIGN, INLINE_LEN_MAX, Kind, PAGE_CODES, PAGES_ALIGN,
    PageRow, RECORD_ALIGN, RECORD_LEN, Record, hash,
};

/// An image being written.
pub(crate) struct Writer<'w, W: Write + Seek> {
    out: BufWriter<&'w mut W>,
    /// Where the next byte goes.
    at: u64,
    /// Hash of the path, and where it lies, of each record.
    records: Vec<(u64, u64)>,
}

/// What a record says of a run that was written: another path can lead there too.
#[derive(Clone, Copy)]
pub(crate) struct Run(Record);

impl<'w, W: Write + Seek> Writer<'w, W> {
    /// Begins at the start of `out`.
    pub(crate) fn new(out: &'w mut W) -> Result<Writer<'w, W>, PackError> {
        out.rewind()?;
        let mut writer =
            Writer { out: BufWriter::with_capacity(BUFFER_LEN, out), at: 0, records: Vec::new() };
        // Zeros until the image is whole: what is cut short is no image.
        writer.put(&[0; HEADER_LEN])?;
        Ok(writer)
    }

    /// A file at `path`. What stays on disk goes behind `files`.
    pub(crate) fn file(
        &mut self,
        path: &[u8],
        fields: &fields::File,
        content: Content,
        files: &mut Vec<fs::File>,
    ) -> Result<Run, PackError> {
        let at = self.record_at();
        let run_at = at + (RECORD_LEN + path.len()) as u64;
        let run_end = run_at + (fields.not_modified.len() + fields.ok.len()) as u64;
        let (home, content_at) = match &content.body {
            Body::OnDisk(_) => (Home::File, files.len() as u64),
            Body::InMemory(_) if content.len <= INLINE_LEN_MAX => (Home::Image, run_end),
            Body::InMemory(_) => (Home::Image, run_end.next_multiple_of(CONTENT_ALIGN)),
        };
        let record = Record {
            path_len: 0,
            kind: Kind::File,
            before_query: 0,
            last_modified: content.last_modified,
            run_at,
            not_modified_len: fields.not_modified.len() as u32,
            fields_len: fields.ok.len() as u32,
            content_at,
            content_len: content.len,
            etag_at: fields.etag_at,
            etag_len: fields.etag_len,
            home,
        };
        self.record(path, record)?;
        self.put(&fields.not_modified)?;
        self.put(&fields.ok)?;
        match content.body {
            Body::InMemory(bytes) => {
                self.pad_to(content_at)?;
                self.put(&bytes)?;
            }
            Body::OnDisk(file) => files.push(file),
        }
        Ok(Run(record))
    }

    /// The same run at another path.
    pub(crate) fn alias(&mut self, path: &[u8], run: Run) -> Result<(), PackError> {
        self.record(path, run.0)
    }

    /// A redirect at `path`.
    pub(crate) fn redirect(&mut self, path: &[u8], redirect: &fields::Redirect) -> Result<(), PackError> {
        let run_at = self.record_at() + (RECORD_LEN + path.len()) as u64;
        let record = Record {
            path_len: 0,
            kind: Kind::Redirect,
            before_query: redirect.before_query,
            last_modified: 0,
            run_at,
            not_modified_len: 0,
            fields_len: redirect.fields.len() as u32,
            content_at: run_at + redirect.fields.len() as u64,
            content_len: redirect.content.len() as u64,
            etag_at: 0,
            etag_len: 0,
            home: Home::Image,
        };
        self.record(path, record)?;
        self.put(&redirect.fields)?;
        self.put(&redirect.content)
    }

    /// Pages, index and header; `file_count` files lie beside.
    pub(crate) fn finish(mut self, file_count: u64) -> Result<(), PackError> {
        let mut tables = self.pages()?;
        self.pad_to(self.at.next_multiple_of(PAGES_ALIGN))?;
        let pages_at = self.at;
        let index_at = (pages_at + tables.len() as u64).next_multiple_of(INDEX_ALIGN);
        let index = tarpon_site::index(&self.records).ok_or(PackError::TooLarge)?;
        tables.resize((index_at - pages_at) as usize, 0);
        tables.extend_from_slice(index.as_flattened());
        self.put(&tables)?;
        let header = Header {
            len: self.at,
            index_at,
            slot_count: index.len() as u64,
            record_count: self.records.len() as u64,
            pages_at,
            page_count: PAGE_CODES.len() as u64,
            file_count,
            tables_hash: hash(&tables),
        };
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header.encode())?;
        self.out.flush()?;
        Ok(())
    }

    /// The pages: writes their fields and contents, and returns their rows.
    fn pages(&mut self) -> Result<Vec<u8>, PackError> {
        let mut rows = Vec::new();
        for code in PAGE_CODES {
            let content = page::content(code).expect("a text for every status: a test compares them");
            let fields = fields::page(code, content.len());
            let row = PageRow {
                code,
                fields_len: fields.len() as u32,
                fields_at: self.at,
                content_at: self.at + fields.len() as u64,
                content_len: content.len() as u64,
            };
            rows.extend_from_slice(&row.encode());
            self.put(&fields)?;
            self.put(content.as_bytes())?;
        }
        Ok(rows)
    }

    /// Where the next record will lie.
    fn record_at(&self) -> u64 {
        self.at.next_multiple_of(RECORD_ALIGN)
    }

    /// Writes a record for `path`.
    fn record(&mut self, path: &[u8], record: Record) -> Result<(), PackError> {
        self.pad_to(self.record_at())?;
        self.records.push((hash(path), self.at));
        // The walk leaves out paths of more than PATH_LEN_MAX.
        self.put(&Record { path_len: path.len() as u16, ..record }.encode())?;
        self.put(path)
    }

    fn pad_to(&mut self, at: u64) -> Result<(), PackError> {
        const ZEROS: [u8; CONTENT_ALIGN as usize] = [0; CONTENT_ALIGN as usize];
        self.put(&ZEROS[..(at - self.at) as usize])
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// Bytes written at once: most contents, and their heads.
const BUFFER_LEN: usize = 128 << 10;
