//! The layout of the archive, computed before the first byte is written.
//!
//! ```text
//! 0       4096    image_end                                                                 len
//! ├ front ┼ image ─┬ zeros ┬ a directory ┬ a file ┬ … ┬ … ┬ a large variant ┬ … ┬ 1024 zeros ┤
//! ```

use super::codings::{CODINGS, SUFFIXES};
use super::plan::{ContentSource, PackPlan, PlannedFile};
use super::spill::{DeltaVariant, SpilledVariant};
use super::tar_member::{BLOCK_LEN, MemberType, OWN_MODE, TarMember};
use crate::walk::SiteDir;
use std::collections::HashMap;
use tarpon_site::format::INLINE_LEN_MAX;
use tarpon_site::packed::{IMAGE_AT, RESERVED_DIR};

/// The members after the image, and their offsets.
pub(crate) struct Layout {
    pub(crate) members: Vec<PlacedMember>,
    /// Where the image ends.
    pub(crate) image_end: u64,
    /// Length of the archive.
    pub(crate) len: u64,
    /// By content: the offset of the content, if it is large, and then of each large variant.
    offsets: Vec<[Option<u64>; 1 + CODINGS.len()]>,
    /// By content and number of the delta: the offset of each large delta.
    delta_offsets: HashMap<(usize, usize), u64>,
}

/// A member with its offset.
pub(crate) struct PlacedMember {
    pub(crate) headers: Vec<u8>,
    /// Where `headers` begin.
    pub(crate) at: u64,
    /// The data. `None`: the member is a link or directory, without data.
    pub(crate) source: Option<ContentSource>,
}

impl Layout {
    /// Computes the layout of an archive whose image has `image_len` bytes.
    pub(crate) fn new(plan: &PackPlan<'_>, image_len: u64) -> Layout {
        let image_end = IMAGE_AT + image_len;
        let mut layout = Layout {
            members: Vec::new(),
            image_end,
            len: image_end.next_multiple_of(BLOCK_LEN),
            offsets: vec![[None; 4]; plan.contents.len()],
            delta_offsets: HashMap::new(),
        };
        layout.place_files(plan);
        layout.place_variants(plan);
        layout.place_deltas(plan);
        layout.len += END_LEN;
        layout
    }

    /// Returns the number of members, which does not depend on the length of the image.
    pub(crate) fn count(plan: &PackPlan<'_>) -> usize {
        Layout::new(plan, 0).members.len()
    }

    /// Returns the offset of a content. `None`: the content is small.
    pub(crate) fn plain_at(&self, content: usize) -> Option<u64> {
        self.offsets[content][0]
    }

    /// Returns the offset of the variant of a content. `None`: there is none, or it is small.
    pub(crate) fn variant_at(&self, content: usize, coding: usize) -> Option<u64> {
        self.offsets[content][1 + coding]
    }

    /// Returns the offset of a delta. `None`: the delta is small.
    pub(crate) fn delta_at(&self, content: usize, delta: usize) -> Option<u64> {
        self.delta_offsets.get(&(content, delta)).copied()
    }

    /// Places all files and directories, empty ones too. A large file with the content, time and mode of an earlier one becomes a hard
    /// link to that file.
    ///
    /// The entries of a directory follow it immediately, since GNU tar sets the time of a directory at the first member outside of it.
    fn place_files(&mut self, plan: &PackPlan<'_>) {
        let mut first_names = HashMap::new();
        let mut dirs = plan.dirs.iter().peekable();
        for (number, file) in plan.files.iter().enumerate() {
            while let Some(dir) = dirs.next_if(|dir| dir.path < file.path) {
                self.place_dir(dir);
            }
            let len = plan.content(file).fingerprint.len;
            let is_large = len > INLINE_LEN_MAX;
            let name = &file.path[1..];
            let &PlannedFile { mode, modified_s, .. } = file;
            let member =
                TarMember { name, member_type: MemberType::File, len, mode, modified_s, aligned: false };
            match first_names.get(&(file.content, modified_s, mode)) {
                Some(&first) if is_large => {
                    self.place(TarMember { member_type: MemberType::Link(first), len: 0, ..member }, None);
                }
                _ => {
                    let offset = &mut self.offsets[file.content][0];
                    let aligned = is_large && offset.is_none();
                    let at = self.place(TarMember { aligned, ..member }, Some(ContentSource::File(number)));
                    if aligned {
                        self.offsets[file.content][0] = Some(at);
                    }
                    first_names.insert((file.content, modified_s, mode), name);
                }
            }
        }
        dirs.for_each(|dir| self.place_dir(dir));
    }

    fn place_dir(&mut self, SiteDir { path, mode, modified_s }: &SiteDir) {
        let (name, mode, modified_s) = (&path[1..], *mode, *modified_s);
        let member =
            TarMember { name, member_type: MemberType::Dir, len: 0, mode, modified_s, aligned: false };
        self.place(member, None);
    }

    /// Places the large variants, under the name of the first file with the content.
    fn place_variants(&mut self, plan: &PackPlan<'_>) {
        for (number, content) in plan.contents.iter().enumerate() {
            let file = &plan.files[content.file];
            for (coding, variant) in content.variants.iter().enumerate() {
                let at = variant.and_then(|variant| self.place_variant(file, variant, SUFFIXES[coding]));
                self.offsets[number][1 + coding] = at;
            }
        }
    }

    /// Places the large deltas in the same way. A name has the first digits of the hash of the dictionary.
    fn place_deltas(&mut self, plan: &PackPlan<'_>) {
        for (number, content) in plan.contents.iter().enumerate() {
            let file = &plan.files[content.file];
            for (delta, DeltaVariant { dictionary, coding, variant }) in content.deltas.iter().enumerate() {
                let digits: String = dictionary[..8].iter().map(|byte| format!("{byte:02x}")).collect();
                let suffix = format!(".{digits}.{}", coding.name());
                if let Some(at) = self.place_variant(file, *variant, &suffix) {
                    self.delta_offsets.insert((number, delta), at);
                }
            }
        }
    }

    /// Places a variant of a file, if it is large. Returns its offset.
    fn place_variant(&mut self, file: &PlannedFile, variant: SpilledVariant, suffix: &str) -> Option<u64> {
        let len = variant.fingerprint.len;
        if len <= INLINE_LEN_MAX {
            return None;
        }
        let name = [RESERVED_DIR.as_bytes(), b"/coded", &file.path, suffix.as_bytes()].concat();
        let (member_type, mode, modified_s) = (MemberType::File, OWN_MODE, file.modified_s);
        let member = TarMember { name: &name, member_type, len, mode, modified_s, aligned: true };
        Some(self.place(member, Some(ContentSource::Variant(variant))))
    }

    /// Places a member after the others. Returns the offset of its data.
    fn place(&mut self, member: TarMember<'_>, source: Option<ContentSource>) -> u64 {
        let (at, headers) = (self.len, member.headers(self.len));
        let data_at = at + headers.len() as u64;
        self.len = (data_at + member.len).next_multiple_of(BLOCK_LEN);
        self.members.push(PlacedMember { headers, at, source });
        data_at
    }
}

/// Length of the zeros that end an archive.
pub(crate) const END_LEN: u64 = 2 * BLOCK_LEN;
