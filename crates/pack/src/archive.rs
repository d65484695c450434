//! Lists the members of a tar archive that are served, and their paths.
//!
//! ```text
//! archive ─ headers ─▶ tree: the last member of each name ─ walk ─▶ path, and where its content lies
//!                        └─ links are resolved here, never on disk
//! ```
//!
//! `walk.rs` walks the tree like a directory on disk, so the same files give the same site. Nothing is unpacked: only the headers of
//! members are read here.

use crate::error::{Damage, PackError};
use crate::skip::{SkipReason, Skipped, skip, skip_all};
use crate::tree::LINK_COUNT_MAX;
use crate::walk::{DirListing, EntryKind, EntryTree, SiteFiles, WalkError, permissions, walk};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tar::{Archive, Entry, EntryType};
use tarpon_site::format::PATH_LEN_MAX;

/// A file in an archive.
pub(crate) struct ArchiveMember {
    pub(crate) name: Vec<u8>,
    pub(crate) content: MemberContent,
}

/// Where the content of a member lies.
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

/// Lists the files of a site in an archive, below `prefix`. Returns the length of the archive too. `path` names the archive in
/// errors. A directory is listed if the archive has a member for it.
pub(crate) fn list(
    archive: &File,
    path: &Path,
    prefix: &Path,
) -> Result<(SiteFiles<ArchiveMember>, u64), PackError> {
    let mut tree = MemberTree::default();
    let len = tree.read(archive, path)?;
    let root = components(prefix.as_os_str().as_bytes()).collect::<Vec<_>>().join(&b'/');
    let children = tree.children();
    if !root.is_empty() && !children.contains_key(&root[..]) {
        return Err(PackError::Prefix { path: path.to_owned(), prefix: prefix.to_owned() });
    }
    let site = ArchiveWalk { tree: &tree, children, root: &root, path };
    let mut files = walk(&site, root.clone(), b"/", usize::MAX)?
        .expect("the number of entries of an archive has no limit");
    let mut skipped = tree.skipped;
    skip_all(&mut skipped, files.skipped);
    files.skipped = skipped;
    Ok((files, len))
}

/// The last member of each name. A directory exists if it has a member, or if a member lies in it.
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
    /// Its target, relative to the directory that contains the link.
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
        // The place of the next header.
        let mut at = 0;
        for entry in reader.entries_with_seek().map_err(failed)? {
            let mut entry = entry.map_err(|error| {
                let damage = match (at, error.kind()) {
                    // An archive begins with a header, so a file without one is no archive, even if it is truncated.
                    (0, _) => Damage::NotTar,
                    (_, io::ErrorKind::UnexpectedEof) => Damage::Truncated,
                    _ if len - at.min(len) < BLOCK_LEN => Damage::Truncated,
                    _ => Damage::Header,
                };
                broken(damage, at, Vec::new())
            })?;
            let (start, size) = (entry.raw_file_position(), entry.size());
            let member = entry.path_bytes().into_owned();
            let content = MemberContent { at: start, len: size, modified_s: 0, mode: 0 };
            self.add(&mut entry, content)
                .map_err(|damage| broken(damage, entry.raw_header_position(), member.clone()))?;
            let end = start.checked_add(size).filter(|&end| end <= len);
            let end = end.ok_or_else(|| broken(Damage::Truncated, start, member))?;
            at = end.next_multiple_of(BLOCK_LEN);
        }
        // An empty file has no header that the reader could reject.
        if at == 0 && len == 0 {
            return Err(broken(Damage::NotTar, 0, Vec::new()));
        }
        // A tar program writes the block of zeros at the end last. Without it, the archive is incomplete.
        let mut end = [0; BLOCK_LEN as usize];
        archive.read_exact_at(&mut end, at).map_err(|_| broken(Damage::Truncated, at, Vec::new()))?;
        Ok(len)
    }

    /// Adds a member. It replaces an earlier member of the same name.
    fn add(&mut self, entry: &mut Entry<'_, impl io::Read>, content: MemberContent) -> Result<(), Damage> {
        let entry_type = entry.header().entry_type();
        // It is no member, and its records would be read as its content.
        if entry_type == EntryType::XGlobalHeader {
            return Ok(());
        }
        let name = entry.path_bytes().into_owned();
        let mut modified_s = entry.header().mtime().unwrap_or(0);
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
        let Some(name) = self.normalized(&name) else { return Ok(()) };
        let node = match entry_type {
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
        self.insert(name, node);
        Ok(())
    }

    /// Returns the name with one slash between its components, or `None` after counting a name that cannot be served. The root has
    /// the empty name.
    fn normalized(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let reason = match name {
            [b'/', ..] => SkipReason::NameAbsolute,
            _ if components(name).any(|component| component == b"..") => SkipReason::NameUpwards,
            _ if std::str::from_utf8(name).is_err() => SkipReason::NameNotText,
            _ if name.len() > PATH_LEN_MAX => SkipReason::PathTooLong,
            _ => return Some(components(name).collect::<Vec<_>>().join(&b'/')),
        };
        self.skip(reason, name);
        None
    }

    fn insert(&mut self, name: Vec<u8>, node: MemberNode) {
        if name.is_empty()
            || matches!((&node, self.nodes.get(&name)), (MemberNode::Dir, Some(MemberNode::Dir)))
        {
            return;
        }
        // A file replaces a directory of its name with everything in it, and a member in a directory replaces a file of the
        // directory's name.
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

    /// Returns the names in each directory. The root is always present.
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

    fn skip(&mut self, reason: SkipReason, name: &[u8]) {
        skip(&mut self.skipped, reason, Path::new(OsStr::from_bytes(name)));
    }
}

/// The members of an archive, while they are walked.
struct ArchiveWalk<'t> {
    tree: &'t MemberTree,
    children: BTreeMap<&'t [u8], BTreeSet<&'t [u8]>>,
    /// The name of the directory that is served.
    root: &'t [u8],
    /// The path of the archive, for errors.
    path: &'t Path,
}

impl EntryTree for ArchiveWalk<'_> {
    /// The name of a member, without links on the way.
    type Location = Vec<u8>;
    type DirId = Vec<u8>;
    type File = ArchiveMember;

    fn list(&self, dir: &Vec<u8>, _: bool, count_max: usize) -> Result<DirListing<Vec<u8>>, WalkError> {
        let names = self.children[&dir[..]].iter().take(count_max);
        Ok(DirListing {
            id: dir.clone(),
            attributes: self.tree.dirs.get(dir).copied(),
            entries: names.map(|name| (name.to_vec(), self.kind(&self.join(dir, name)))).collect(),
        })
    }

    fn join(&self, dir: &Vec<u8>, name: &[u8]) -> Vec<u8> {
        join(dir, name)
    }

    fn follow(&self, link: &Vec<u8>) -> Result<(Vec<u8>, EntryKind), WalkError> {
        let target = self.resolve(link).map_err(WalkError::Skip)?;
        let kind = self.kind(&target);
        Ok((target, kind))
    }

    fn file(&self, location: Vec<u8>) -> ArchiveMember {
        let MemberNode::File(content) = self.tree.nodes[&location] else { unreachable!("a file") };
        ArchiveMember { name: location, content }
    }

    fn too_many_repeats(&self, _: &Vec<u8>) -> PackError {
        let (path, member) = (self.path.to_owned(), self.root.to_vec());
        PackError::Archive { path, damage: Damage::TooMany, at: 0, member }
    }
}

impl ArchiveWalk<'_> {
    fn kind(&self, name: &[u8]) -> EntryKind {
        if self.children.contains_key(name) {
            return EntryKind::Dir;
        }
        match self.tree.nodes[name] {
            MemberNode::File(_) => EntryKind::File,
            MemberNode::Link(_) => EntryKind::Link,
            MemberNode::Dir | MemberNode::Special => EntryKind::Special,
        }
    }

    /// Resolves the symbolic links in a name, as long as they stay below the root.
    fn resolve(&self, name: &[u8]) -> Result<Vec<u8>, SkipReason> {
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
                    match self.tree.nodes.get(&next) {
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
                        // More components follow, and a file contains none.
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
}

/// Returns the components of a name, without empty ones and `.`.
fn components(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|&byte| byte == b'/').filter(|component| !matches!(*component, b"" | b"."))
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// Returns the whole seconds of a time such as `1700000000.25`; 0 for a time before 1970.
fn seconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('-') {
        return Some(0);
    }
    text.split('.').next()?.parse().ok()
}

/// The mode of a file whose header has none.
const FILE_MODE: u32 = 0o644;
/// The mode of a directory whose header has none.
const DIR_MODE: u32 = 0o755;
/// Bytes of a header; the content of a member is padded to a multiple.
const BLOCK_LEN: u64 = 512;
