//! Programs with an embedded site: the program, the packed site, and a line with the position of the site. `tarpon_site::carried`
//! describes the layout.

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use tarpon_site::embedded::{EmbeddedTrailer, PROGRAM_MAGIC, TRAILER_LEN};

/// Returns the position of the site that is embedded in a program. `None`: the file is no program, or has no site.
///
/// # Errors
/// The file cannot be read.
pub fn embedded_site(file: &File) -> io::Result<Option<EmbeddedTrailer>> {
    let mut magic = [0; PROGRAM_MAGIC.len()];
    let mut line = [0; TRAILER_LEN];
    let Some(line_at) = file.metadata()?.len().checked_sub(TRAILER_LEN as u64) else { return Ok(None) };
    file.read_exact_at(&mut magic, 0)?;
    file.read_exact_at(&mut line, line_at)?;
    Ok(if magic == *PROGRAM_MAGIC { EmbeddedTrailer::decode(&line, line_at) } else { None })
}

/// Writes a program with the embedded `site`. If `program` has a site itself, copies the program alone. Users that may read the new file
/// may run it.
pub(crate) fn write(mut program: &File, mut site: &File, mut to: &File) -> io::Result<u64> {
    let full_len = program.metadata()?.len();
    let program_len = embedded_site(program)?.map_or(full_len, |carried| carried.program_len);
    let carried = EmbeddedTrailer::new(program_len, site.metadata()?.len());
    program.seek(SeekFrom::Start(0))?;
    io::copy(&mut program.take(program_len), &mut to)?;
    to.seek(SeekFrom::Start(carried.site.at))?;
    site.seek(SeekFrom::Start(0))?;
    io::copy(&mut site, &mut to)?;
    to.write_all(&carried.encode())?;
    let mode = to.metadata()?.permissions().mode();
    to.set_permissions(Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
    to.stream_position()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedding_replaces_an_embedded_site() {
        let file = |content: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            file
        };
        let all = |file: &File| {
            let mut content = vec![0; file.metadata().unwrap().len() as usize];
            file.read_exact_at(&mut content, 0).unwrap();
            content
        };
        let program = [&PROGRAM_MAGIC[..], &[7; 100_000]].concat();
        let (first, second, again) = (file(b""), file(b""), file(b""));
        write(&file(&program), &file(b"a site"), &first).unwrap();
        write(&first, &file(b"another site"), &second).unwrap();
        write(&second, &file(b"a site"), &again).unwrap();
        assert_eq!(embedded_site(&second).unwrap(), Some(EmbeddedTrailer::new(program.len() as u64, 12)));
        assert_eq!(&all(&second)[128 << 10..][..12], b"another site");
        assert_eq!(&all(&second)[..program.len()], program);
        assert_eq!(all(&first), all(&again));
        assert_eq!(embedded_site(&file(&program)).unwrap(), None);
        assert_eq!(embedded_site(&file(&all(&first)[4..])).unwrap(), None);
    }
}
