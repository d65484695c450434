//! Which members of a tar archive are served, at which paths.
//!
//! ```text
//! archive ─ headers ─▶ tree: the last member of a name ─ walk ─▶ path, stretch of the archive
//!                        └─ a link is followed here, never on disk
//! ```
//!
//! The walk is that of `walk.rs`, over the tree: the same files give the same site, as a directory and as an
//! archive. Nothing is unpacked; of a member only its header is read here.

use crate::error::{Damage, PackError};
use crate::repeats::{RepeatedEntries, TooManyRepeats};
use crate::skip::{SkipReason, Skipped, skip};
use crate::walk::{SiteDir, SiteFile, permissions};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tar::{Archive, Entry, EntryType};
use tarpon_site::format::PATH_LEN_MAX;

/// What was found.
pub(crate) struct ArchiveFiles {
    pub(crate) found: Vec<SiteFile<ArchiveMember>>,
    /// Those that have a member of their own.
    pub(crate) dirs: Vec<SiteDir>,
    pub(crate) skipped: Vec<Skipped>,
    /// Bytes of the archive.
    pub(crate) len: u64,
}

/// A file in an archive.
pub(crate) struct ArchiveMember {
    pub(crate) name: Vec<u8>,
    pub(crate) stretch: MemberContent,
}

/// The content of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberContent {
    /// From the start of the archive, in bytes. Within the archive as it was when listed.
    pub(crate) at: u64,
    /// In bytes.
    pub(crate) len: u64,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
    pub(crate) mode: u32,
}

/// Lists the files of a site that lies in an archive, below `prefix`. `path` is its name, for errors.
pub(crate) fn list(archive: &File, path: &Path, prefix: &Path) -> Result<ArchiveFiles, PackError> {
    let mut tree = MemberTree::default();
    let len = tree.read(archive, path)?;
    let root = components(prefix.as_os_str().as_bytes()).collect::<Vec<_>>().join(&b'/');
    let children = tree.children();
    if !root.is_empty() && !children.contains_key(&root[..]) {
        return Err(PackError::Prefix { path: path.to_owned(), prefix: prefix.to_owned() });
    }
    let MemberTree { nodes, dirs, skipped } = &tree;
    let mut walker = ArchiveWalker {
        nodes,
        dirs,
        children,
        root: &root,
        above: Vec::new(),
        listed: BTreeSet::new(),
        repeats: RepeatedEntries::default(),
        found: Vec::new(),
        seen_dirs: Vec::new(),
        skipped: skipped.clone(),
    };
    match walker.dir(&root, b"/") {
        Ok(()) => {
            Ok(ArchiveFiles { found: walker.found, dirs: walker.seen_dirs, skipped: walker.skipped, len })
        }
        Err(TooManyRepeats) => {
            Err(PackError::Archive { path: path.to_owned(), damage: Damage::TooMany, at: 0, member: root })
        }
    }
}

/// What an archive says, the last member of each name. A directory may be here, or be known by what lies in it.
#[derive(Default)]
struct MemberTree {
    /// By name: components with one slash between.
    nodes: BTreeMap<Vec<u8>, MemberNode>,
    /// Mode, and seconds since 1970, of the directories that have a member.
    dirs: BTreeMap<Vec<u8>, (u32, u64)>,
    skipped: Vec<Skipped>,
}

#[derive(Clone)]
enum MemberNode {
    File(MemberContent),
    Dir,
    /// Leads to this name, from the directory it lies in.
    Link(Vec<u8>),
    Special,
}

impl MemberTree {
    /// Reads all headers. Returns the length of the archive.
    fn read(&mut self, mut archive: &File, path: &Path) -> Result<u64, PackError> {
        let failed = |error| PackError::Root { path: path.to_owned(), error };
        let len = archive.metadata().map_err(failed)?.len();
        archive.rewind().map_err(failed)?;
        let broken = |damage, at, member| PackError::Archive { path: path.to_owned(), damage, at, member };
        let mut reader = Archive::new(archive);
        // Where the next header lies.
        let mut at = 0;
        for entry in reader.entries_with_seek().map_err(failed)? {
            let mut entry = entry.map_err(|error| {
                let damage = match (at, error.kind()) {
                    // Whatever it is cut off of: the first block of an archive is a header.
                    (0, _) => Damage::NotTar,
                    (_, io::ErrorKind::UnexpectedEof) => Damage::Truncated,
                    _ if len - at.min(len) < BLOCK_LEN => Damage::Truncated,
                    _ => Damage::Header,
                };
                broken(damage, at, Vec::new())
            })?;
            let (start, size) = (entry.raw_file_position(), entry.size());
            let member = entry.path_bytes().into_owned();
            let stretch = MemberContent { at: start, len: size, modified_s: 0, mode: 0 };
            self.member(&mut entry, stretch)
                .map_err(|damage| broken(damage, entry.raw_header_position(), member.clone()))?;
            let end = start.checked_add(size).filter(|&end| end <= len);
            let end = end.ok_or_else(|| broken(Damage::Truncated, start, member))?;
            at = end.next_multiple_of(BLOCK_LEN);
        }
        // Nothing at all has no header to judge by.
        if at == 0 && len == 0 {
            return Err(broken(Damage::NotTar, 0, Vec::new()));
        }
        // The block of zeros that ends an archive is written last: without it, the rest is still to come.
        let mut end = [0; BLOCK_LEN as usize];
        archive.read_exact_at(&mut end, at).map_err(|_| broken(Damage::Truncated, at, Vec::new()))?;
        Ok(len)
    }

    /// Takes a member in. It replaces what had its name.
    fn member(&mut self, entry: &mut Entry<'_, impl io::Read>, content: MemberContent) -> Result<(), Damage> {
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let name = entry.path_bytes().into_owned();
        let mut modified_s = entry.header().mtime().unwrap_or(0);
        // Not those of a header that stands for itself: they would be its content.
        if let Some(records) = entry.pax_extensions().map_err(|_| Damage::Extension)? {
            for record in records {
                let record = record.map_err(|_| Damage::Extension)?;
                if record.key_bytes().starts_with(b"GNU.sparse.") {
                    return Err(Damage::Sparse);
                }
                if record.key_bytes() == b"mtime" {
                    modified_s = seconds(record.value_bytes()).unwrap_or(modified_s);
                }
            }
        }
        let mode = entry.header().mode().ok().map(permissions);
        let Some(name) = self.judge(&name) else { return Ok(()) };
        let node = match kind {
            EntryType::GNUSparse => return Err(Damage::Sparse),
            // Before 1988 a directory was a file whose name ends with a slash.
            EntryType::Regular if entry.path_bytes().ends_with(b"/") => MemberNode::Dir,
            EntryType::Regular | EntryType::Continuous => {
                MemberNode::File(MemberContent { modified_s, mode: mode.unwrap_or(FILE_MODE), ..content })
            }
            EntryType::Directory => MemberNode::Dir,
            EntryType::Symlink => MemberNode::Link(entry.link_name_bytes().unwrap_or_default().into_owned()),
            EntryType::Link => {
                let target = entry.link_name_bytes().unwrap_or_default();
                let target = components(&target).collect::<Vec<_>>().join(&b'/');
                match self.nodes.get(&target) {
                    Some(node @ (MemberNode::File(_) | MemberNode::Link(_) | MemberNode::Special)) => {
                        node.clone()
                    }
                    Some(MemberNode::Dir) | None => {
                        self.skip(SkipReason::LinkDangling, &name);
                        return Ok(());
                    }
                }
            }
            _ => MemberNode::Special,
        };
        if let MemberNode::Dir = node {
            self.dirs.insert(name.clone(), (mode.unwrap_or(DIR_MODE), modified_s));
        }
        self.put(name, node);
        Ok(())
    }

    /// The name as the tree has it, if it is one that can be served. Empty: the root itself.
    fn judge(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let kind = match name {
            [b'/', ..] => SkipReason::NameAbsolute,
            _ if components(name).any(|component| component == b"..") => SkipReason::NameUpwards,
            _ if std::str::from_utf8(name).is_err() => SkipReason::NameNotText,
            _ if name.len() > PATH_LEN_MAX => SkipReason::PathTooLong,
            _ => return Some(components(name).collect::<Vec<_>>().join(&b'/')),
        };
        self.skip(kind, name);
        None
    }

    fn put(&mut self, name: Vec<u8>, node: MemberNode) {
        if name.is_empty()
            || matches!((&node, self.nodes.get(&name)), (MemberNode::Dir, Some(MemberNode::Dir)))
        {
            return;
        }
        // What is a file now has nothing in it any more, and what has something in it is a directory.
        if !matches!(node, MemberNode::Dir) {
            let below = [&name[..], b"/"].concat();
            let gone = self.nodes.range(below.clone()..).map(|(name, _)| name);
            let gone: Vec<_> = gone.take_while(|name| name.starts_with(&below)).cloned().collect();
            gone.iter().for_each(|name| drop(self.nodes.remove(name)));
        }
        let mut above = &name[..];
        while let Some(slash) = above.iter().rposition(|&byte| byte == b'/') {
            above = &above[..slash];
            match self.nodes.get(above) {
                Some(MemberNode::Dir) => break,
                Some(_) | None => drop(self.nodes.insert(above.to_vec(), MemberNode::Dir)),
            }
        }
        self.nodes.insert(name, node);
    }

    /// What lies in each directory, by name. The root is there always.
    fn children(&self) -> BTreeMap<&[u8], BTreeSet<&[u8]>> {
        let mut children = BTreeMap::from([(&b""[..], BTreeSet::new())]);
        for (name, node) in &self.nodes {
            let (dir, last) = match name.iter().rposition(|&byte| byte == b'/') {
                Some(slash) => (&name[..slash], &name[slash + 1..]),
                None => (&b""[..], &name[..]),
            };
            children.entry(dir).or_default().insert(last);
            if let MemberNode::Dir = node {
                children.entry(name).or_default();
            }
        }
        children
    }

    fn skip(&mut self, kind: SkipReason, name: &[u8]) {
        skip(&mut self.skipped, kind, Path::new(OsStr::from_bytes(name)));
    }
}

struct ArchiveWalker<'t> {
    nodes: &'t BTreeMap<Vec<u8>, MemberNode>,
    dirs: &'t BTreeMap<Vec<u8>, (u32, u64)>,
    children: BTreeMap<&'t [u8], BTreeSet<&'t [u8]>>,
    /// The directory that is served.
    root: &'t [u8],
    /// The directories we are in: a link to one of them would never end.
    above: Vec<Vec<u8>>,
    /// All directories that were listed so far.
    listed: BTreeSet<Vec<u8>>,
    repeats: RepeatedEntries,
    found: Vec<SiteFile<ArchiveMember>>,
    seen_dirs: Vec<SiteDir>,
    skipped: Vec<Skipped>,
}

impl ArchiveWalker<'_> {
    /// Lists the directory `at`, no link on the way, as `path`, which ends in a slash.
    fn dir(&mut self, at: &[u8], path: &[u8]) -> Result<(), TooManyRepeats> {
        if self.above.iter().any(|above| above == at) {
            self.skip(SkipReason::LinkLoop, path);
            return Ok(());
        }
        if let Some(&(mode, modified_s)) = self.dirs.get(at).filter(|_| path != b"/") {
            self.seen_dirs.push(SiteDir { path: path.to_vec(), mode, modified_s });
        }
        self.above.push(at.to_vec());
        let names: Vec<_> = self.children[at].iter().copied().collect();
        let is_first = self.listed.insert(at.to_vec());
        self.repeats.add(names.len(), is_first)?;
        for name in names {
            let path = [path, name].concat();
            if name.starts_with(b".") && name != b".well-known" {
                self.skip(SkipReason::Dotfile, &path);
            } else {
                self.entry(&join(at, name), path)?;
            }
        }
        self.above.pop();
        Ok(())
    }

    /// One entry, no matter whether a link led to it.
    fn entry(&mut self, at: &[u8], mut path: Vec<u8>) -> Result<(), TooManyRepeats> {
        let is_dir = self.children.contains_key(at);
        // A directory takes one byte more, for the slash behind.
        if path.len() + usize::from(is_dir) > PATH_LEN_MAX {
            self.skip(SkipReason::PathTooLong, &path);
            return Ok(());
        }
        if is_dir {
            path.push(b'/');
            return self.dir(at, &path);
        }
        match &self.nodes[at] {
            &MemberNode::File(stretch) => {
                self.found.push(SiteFile { path, file: ArchiveMember { name: at.to_vec(), stretch } });
            }
            MemberNode::Link(_) => match self.follow(at) {
                Ok(target) => return self.entry(&target, path),
                Err(kind) => self.skip(kind, &path),
            },
            MemberNode::Dir | MemberNode::Special => self.skip(SkipReason::Special, &path),
        }
        Ok(())
    }

    /// Where a name leads, as far as that lies below the root. Names on the way may begin with a dot: who sets a
    /// link to `.releases/7` means it.
    fn follow(&self, name: &[u8]) -> Result<Vec<u8>, SkipReason> {
        let mut todo: Vec<&[u8]> = name.rsplit(|&byte| byte == b'/').collect();
        let mut done = Vec::new();
        let mut link_count = 0;
        while let Some(component) = todo.pop() {
            match component {
                b"" | b"." => {}
                b".." if done.is_empty() => return Err(SkipReason::LinkOutside),
                b".." => done.truncate(done.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
                _ => {
                    let next = join(&done, component);
                    match self.nodes.get(&next) {
                        None => return Err(SkipReason::LinkDangling),
                        Some(MemberNode::Link(target)) if target.starts_with(b"/") => {
                            return Err(SkipReason::LinkOutside);
                        }
                        Some(MemberNode::Link(_)) if link_count == LINK_COUNT_MAX => {
                            return Err(SkipReason::LinkLoop);
                        }
                        Some(MemberNode::Link(target)) => {
                            link_count += 1;
                            todo.extend(target.rsplit(|&byte| byte == b'/'));
                        }
                        Some(MemberNode::Dir) => done = next,
                        // Nothing lies in a file.
                        Some(_) if !todo.is_empty() => return Err(SkipReason::LinkDangling),
                        Some(_) => done = next,
                    }
                }
            }
        }
        let below = done
            .strip_prefix(self.root)
            .is_some_and(|rest| self.root.is_empty() || rest.is_empty() || rest.starts_with(b"/"));
        if below { Ok(done) } else { Err(SkipReason::LinkOutside) }
    }

    fn skip(&mut self, kind: SkipReason, path: &[u8]) {
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        let relative = relative.strip_suffix(b"/").unwrap_or(relative);
        skip(&mut self.skipped, kind, Path::new(OsStr::from_bytes(relative)));
    }
}

/// The components of a name that say something.
fn components(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|&byte| byte == b'/').filter(|component| !matches!(*component, b"" | b"."))
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// The whole seconds of a time such as `1700000000.25`. Before 1970 there is no date a u64 can tell.
fn seconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('-') {
        return Some(0);
    }
    text.split('.').next()?.parse().ok()
}

/// Of a member that says nothing.
const FILE_MODE: u32 = 0o644;
/// The same of a directory.
const DIR_MODE: u32 = 0o755;
/// A header, and what the content of a member is padded to.
const BLOCK_LEN: u64 = 512;
/// Symbolic links on the way to one file: as many as Linux follows.
const LINK_COUNT_MAX: usize = 40;
