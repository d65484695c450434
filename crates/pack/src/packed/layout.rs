//! Where everything lies in the archive, worked out before a byte of it is written.
//!
//! ```text
//! 0       4096    image_len                                                                 len
//! ├ front ┼ image ─┬ zeros ┬ a directory ┬ a file ┬ … ┬ … ┬ a coded variant ┬ … ┬ 1024 zeros ┤
//! ```

use super::deltas::Delta;
use super::member::{BLOCK_LEN, Form, Member, OWN_MODE};
use super::plan::{File, Plan};
use super::variants::SUFFIXES;
use super::{CODINGS, Piece};
use crate::walk::SiteDir;
use std::collections::HashMap;
use tarpon_site::format::INLINE_LEN_MAX;
use tarpon_site::packed::{IMAGE_AT, RESERVED};

/// The members behind the image, and where they lie.
pub(crate) struct Layout {
    pub(crate) members: Vec<Placed>,
    /// Where the image ends.
    pub(crate) image_end: u64,
    /// Bytes of the archive.
    pub(crate) len: u64,
    /// By content: where it lies as it is, if it is large, and then in each coding.
    places: Vec<[Option<u64>; 1 + CODINGS.len()]>,
    /// By content and number of the delta: where it lies, if it is large.
    deltas: HashMap<(usize, usize), u64>,
}

/// A member with its place.
pub(crate) struct Placed {
    pub(crate) head: Vec<u8>,
    /// Where `head` begins.
    pub(crate) at: u64,
    pub(crate) data: Data,
}

/// What a member has behind its headers.
#[derive(Clone, Copy)]
pub(crate) enum Data {
    /// The content of a file: number in [`Plan::files`].
    File(usize),
    /// Nothing: it is a link, or a directory.
    Nothing,
    /// A coded variant.
    Coded(Piece),
}

impl Layout {
    /// The members of an archive whose image has `image_len` bytes.
    pub(crate) fn new(plan: &Plan<'_>, image_len: u64) -> Layout {
        let image_end = IMAGE_AT + image_len;
        let mut layout = Layout {
            members: Vec::new(),
            image_end,
            len: image_end.next_multiple_of(BLOCK_LEN),
            places: vec![[None; 4]; plan.contents.len()],
            deltas: HashMap::new(),
        };
        layout.files(plan);
        layout.coded(plan);
        layout.coded_with(plan);
        layout.len += END_LEN;
        layout
    }

    /// How many members there will be, whatever the length of the image.
    pub(crate) fn count(plan: &Plan<'_>) -> usize {
        Layout::new(plan, 0).members.len()
    }

    /// Where a content lies; none if it is small.
    pub(crate) fn plain_at(&self, content: usize) -> Option<u64> {
        self.places[content][0]
    }

    /// Where the variant of a content lies; none if it is small, or not there.
    pub(crate) fn coded_at(&self, content: usize, coding: usize) -> Option<u64> {
        self.places[content][1 + coding]
    }

    /// Where a delta of a content lies; none if it is small.
    pub(crate) fn delta_at(&self, content: usize, delta: usize) -> Option<u64> {
        self.deltas.get(&(content, delta)).copied()
    }

    /// All files and directories, empty ones too. A large file that is in all respects the same as one before is a hard link
    /// to that.
    ///
    /// What lies in a directory comes right behind it: GNU tar gives it its time when it meets something else.
    fn files(&mut self, plan: &Plan<'_>) {
        let mut same = HashMap::new();
        let mut dirs = plan.dirs.iter().peekable();
        for (number, file) in plan.files.iter().enumerate() {
            while let Some(dir) = dirs.next_if(|dir| dir.path < file.path) {
                self.dir(dir);
            }
            let len = plan.content(file).print.len;
            let is_large = len > INLINE_LEN_MAX;
            let name = &file.path[1..];
            let &File { mode, modified_s, .. } = file;
            let member = Member { name, form: Form::File, len, mode, modified_s, aligned: false };
            match same.get(&(file.content, modified_s, mode)) {
                Some(&first) if is_large => {
                    self.put(Member { form: Form::Link(first), len: 0, ..member }, Data::Nothing);
                }
                _ => {
                    let place = &mut self.places[file.content][0];
                    let aligned = is_large && place.is_none();
                    let at = self.put(Member { aligned, ..member }, Data::File(number));
                    if aligned {
                        self.places[file.content][0] = Some(at);
                    }
                    same.insert((file.content, modified_s, mode), name);
                }
            }
        }
        dirs.for_each(|dir| self.dir(dir));
    }

    fn dir(&mut self, SiteDir { path, mode, modified_s }: &SiteDir) {
        let (name, mode, modified_s) = (&path[1..], *mode, *modified_s);
        let member = Member { name, form: Form::Dir, len: 0, mode, modified_s, aligned: false };
        self.put(member, Data::Nothing);
    }

    /// The large variants, each once, under the name of the first file that has it.
    fn coded(&mut self, plan: &Plan<'_>) {
        for (number, content) in plan.contents.iter().enumerate() {
            let file = &plan.files[content.file];
            for (coding, piece) in content.variants.iter().enumerate() {
                let Some(piece) = piece.filter(|piece| piece.print.len > INLINE_LEN_MAX) else { continue };
                let name = [RESERVED.as_bytes(), b"/coded", &file.path, SUFFIXES[coding].as_bytes()].concat();
                let member = Member {
                    name: &name,
                    form: Form::File,
                    len: piece.print.len,
                    mode: OWN_MODE,
                    modified_s: file.modified_s,
                    aligned: true,
                };
                let at = self.put(member, Data::Coded(piece));
                self.places[number][1 + coding] = Some(at);
            }
        }
    }

    /// The large deltas, as large variants; their names tell the dictionary by the first digits of its hash.
    fn coded_with(&mut self, plan: &Plan<'_>) {
        for (number, content) in plan.contents.iter().enumerate() {
            let file = &plan.files[content.file];
            for (delta, Delta { dictionary, coding, piece }) in content.deltas.iter().enumerate() {
                if piece.print.len <= INLINE_LEN_MAX {
                    continue;
                }
                let digits: String = dictionary[..8].iter().map(|byte| format!("{byte:02x}")).collect();
                let suffix = format!(".{digits}.{}", coding.name());
                let name = [RESERVED.as_bytes(), b"/coded", &file.path, suffix.as_bytes()].concat();
                let (len, modified_s) = (piece.print.len, file.modified_s);
                let (name, form, mode) = (&name[..], Form::File, OWN_MODE);
                let member = Member { name, form, len, mode, modified_s, aligned: true };
                let at = self.put(member, Data::Coded(*piece));
                self.deltas.insert((number, delta), at);
            }
        }
    }

    /// Places a member behind the others. Returns where its data begins.
    fn put(&mut self, member: Member<'_>, data: Data) -> u64 {
        let (at, head) = (self.len, member.head(self.len));
        let data_at = at + head.len() as u64;
        self.len = (data_at + member.len).next_multiple_of(BLOCK_LEN);
        self.members.push(Placed { head, at, data });
        data_at
    }
}

/// The zeros that end an archive.
pub(crate) const END_LEN: u64 = 2 * BLOCK_LEN;
