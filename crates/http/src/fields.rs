//! The fields of a request, whatever protocol they arrived in.
//!
//! ```text
//! HTTP/1    head ─ parse ─▶ lines ──────────────────┐
//! HTTP/2    field block ─ decode ─▶ names, values ──┴─▶ Fields: the place of the first value of each FieldName
//! ```
//!
//! The other fields are scanned only for what few requests need: a repeated field, Accept, and what the log records.

use tarpon_simd::{BLOCK_LEN, ByteClass, outside};

use crate::field_name::{FieldName, NAME_COUNT};
use crate::head::field_lines;

/// The fields of a request: a lookup by known name, and a list. Borrows the bytes that the names and values lie in.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The bytes that contain all names and values.
    bytes: &'a [u8],
    list: FieldList<'a>,
    index: FieldIndex,
}

/// The places of a field of a decoded field section, in the bytes that it was decoded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// The name.
    pub name: Place,
    /// The value.
    pub value: Place,
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The offset in bytes.
    pub at: u16,
    /// The length in bytes.
    pub len: u16,
}

/// The list of all fields, in order.
#[derive(Clone, Copy, Debug)]
enum FieldList<'a> {
    /// The field lines of HTTP/1, each with its CRLF.
    Lines(&'a [u8]),
    /// The bytes contain these fields, anywhere.
    Places(&'a [FieldPlace]),
}

impl<'a> Fields<'a> {
    /// No fields.
    pub const EMPTY: Fields<'static> =
        Fields { bytes: &[], list: FieldList::Places(&[]), index: FieldIndex::EMPTY };

    /// Returns the fields of a decoded field section of HTTP/2 or HTTP/3, without its pseudo-header fields: RFC 9113, section 8.3.
    ///
    /// The decoder has refused names and values that RFC 9113, section 8.2.1, forbids: a value has no control bytes, and no whitespace
    /// at either end.
    ///
    /// # Panics
    ///
    /// Panics if a place is not within `bytes`.
    ///
    /// ```
    /// use tarpon_http::fields::{FieldPlace, Fields, Place};
    /// use tarpon_http::FieldName;
    ///
    /// let fields = [FieldPlace { name: Place { at: 0, len: 5 }, value: Place { at: 5, len: 9 } }];
    /// let fields = Fields::decoded(b"rangebytes=0-9", &fields);
    /// assert_eq!(fields.first(FieldName::Range), Some(&b"bytes=0-9"[..]));
    /// ```
    pub fn decoded(bytes: &'a [u8], fields: &'a [FieldPlace]) -> Fields<'a> {
        let mut index = FieldIndex::EMPTY;
        for FieldPlace { name, value } in fields {
            assert!(value.end() <= bytes.len(), "a value lies in the bytes of its section");
            if let Some(name) = FieldName::from_bytes(name.of(bytes)) {
                index.add(name, || *value);
            }
        }
        Fields { bytes, list: FieldList::Places(fields), index }
    }

    /// Returns the index, empty, to add the places of fields to.
    #[inline(always)]
    pub(crate) fn new_index(&mut self) -> &mut FieldIndex {
        // Places are read only of names that are present.
        (self.index.present, self.index.repeated) = (FieldSet(0), FieldSet(0));
        &mut self.index
    }

    /// Sets the fields to those of a head: `lines` are its field lines, and the index has their places in `bytes`.
    #[inline(always)]
    pub(crate) fn set_lines(&mut self, lines: &'a [u8], bytes: &'a [u8]) {
        (self.bytes, self.list) = (bytes, FieldList::Lines(lines));
    }

    /// Sets the fields to those of a decoded section: `places` are all of them, and the index has those with a known name.
    #[inline(always)]
    pub(crate) fn set_places(&mut self, places: &'a [FieldPlace], bytes: &'a [u8]) {
        (self.bytes, self.list) = (bytes, FieldList::Places(places));
    }

    /// Returns the value of the first field named `name`, without optional whitespace (OWS) around it.
    #[inline]
    pub fn first(&self, name: FieldName) -> Option<&'a [u8]> {
        self.has(name).then(|| self.index.first_values[name as usize].of(self.bytes))
    }

    /// Returns whether the first value of the field `name` has 1 to 16 bytes, all in `class`. May return false for such a value, too.
    #[inline(always)]
    pub(crate) fn is_short_run(&self, name: FieldName, class: ByteClass) -> bool {
        let Place { at, len } = self.index.first_values[name as usize];
        let (at, len) = (usize::from(at), usize::from(len));
        // The last block of the bytes may begin before the value.
        let Some(last_at) = self.bytes.len().checked_sub(BLOCK_LEN) else { return false };
        let block_at = at.min(last_at);
        let Some(block) = self.bytes[block_at..].first_chunk() else { return false };
        let run_len = (outside(class, block) >> ((at - block_at) % 32)).trailing_zeros() as usize;
        self.has(name) && len > 0 && len <= run_len
    }

    /// Returns the values of all fields named `name`, in order. Scans the list only if the name is repeated.
    #[inline]
    pub fn all(&self, name: FieldName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let first = self.first(name).filter(|_| !self.is_repeated(name));
        let listed = self.is_repeated(name).then(|| self.iter());
        let named = move |(found, value)| (FieldName::from_bytes(found) == Some(name)).then_some(value);
        first.into_iter().chain(listed.into_iter().flatten().filter_map(named))
    }

    /// Returns name and value of every field, in order; values have no OWS around them. Names are in any case.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        let (lines, places) = match self.list {
            FieldList::Lines(lines) => (lines, &[][..]),
            FieldList::Places(places) => (&[][..], places),
        };
        let places = places.iter().map(move |field| (field.name.of(bytes), field.value.of(bytes)));
        field_lines(lines).chain(places)
    }

    /// Returns whether a field named `name` is present.
    #[inline]
    pub fn has(&self, name: FieldName) -> bool {
        self.index.present.contains(name)
    }

    /// Returns whether a field with one of these names is present. With constant names, this is one test.
    #[inline(always)]
    pub fn has_any<const N: usize>(&self, names: [FieldName; N]) -> bool {
        let mut set = FieldSet(0);
        for name in names {
            set.insert(name);
        }
        self.index.present.0 & set.0 != 0
    }

    /// Returns whether all fields of a [`FieldName`] are named by one of these, and each at most once.
    #[inline(always)]
    pub fn has_at_most<const N: usize>(&self, names: [FieldName; N]) -> bool {
        let mut set = FieldSet(0);
        for name in names {
            set.insert(name);
        }
        (self.index.present.0 & !set.0) | self.index.repeated.0 == 0
    }

    /// Returns whether more than one field is named `name`.
    #[inline]
    pub fn is_repeated(&self, name: FieldName) -> bool {
        self.index.repeated.contains(name)
    }
}

impl Place {
    /// Returns the bytes at this place in `bytes`.
    #[inline(always)]
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at as usize..][..self.len as usize]
    }

    fn end(self) -> usize {
        self.at as usize + self.len as usize
    }
}

/// The places of the first values of the fields in [`FieldName`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldIndex {
    /// For each name in `present`.
    first_values: [Place; NAME_COUNT],
    present: FieldSet,
    repeated: FieldSet,
}

impl FieldIndex {
    const EMPTY: FieldIndex = FieldIndex {
        first_values: [Place { at: 0, len: 0 }; NAME_COUNT],
        present: FieldSet(0),
        repeated: FieldSet(0),
    };

    /// Adds a field after those that were added before.
    #[inline(always)]
    pub(crate) fn add(&mut self, name: FieldName, value: impl FnOnce() -> Place) {
        if self.present.contains(name) {
            self.repeated.insert(name);
        } else {
            self.present.insert(name);
            self.first_values[name as usize] = value();
        }
    }
}

/// A set of field names.
#[derive(Clone, Copy, Debug, Default)]
struct FieldSet(u32);

impl FieldSet {
    #[inline(always)]
    fn contains(self, name: FieldName) -> bool {
        self.0 & (1 << name as u8) != 0
    }

    #[inline(always)]
    fn insert(&mut self, name: FieldName) {
        self.0 |= 1 << name as u8;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::head;

    /// Returns the bytes of a section, and its fields, as a decoder of HTTP/2 leaves them: the values first, and nothing between them.
    fn decode(fields: &[(&str, &str)]) -> (Vec<u8>, Vec<FieldPlace>) {
        let mut bytes = Vec::new();
        let mut put = |text: &str| {
            let at = bytes.len() as u16;
            bytes.extend_from_slice(text.as_bytes());
            Place { at, len: text.len() as u16 }
        };
        let values: Vec<_> = fields.iter().map(|(_, value)| put(value)).collect();
        let names = fields.iter().map(|(name, _)| put(&name.to_ascii_lowercase())).collect::<Vec<_>>();
        let places = names.into_iter().zip(values).map(|(name, value)| FieldPlace { name, value });
        (bytes, places.collect())
    }

    #[test]
    fn decoded_fields_are_found_by_name_and_in_order() {
        let (bytes, places) =
            decode(&[("a", "b"), ("range", ""), ("if-match", "1"), ("if-matchx", "2"), ("if-match", "3")]);
        let fields = Fields::decoded(&bytes, &places);
        #[rustfmt::skip]
        let cases: &[(FieldName, &[&[u8]])] = &[
            // name                     values
            (FieldName::Range,          &[b""]),
            (FieldName::IfMatch,        &[b"1", b"3"]),
            (FieldName::IfNoneMatch,    &[]),
        ];
        for (name, want) in cases {
            assert_eq!(&fields.all(*name).collect::<Vec<_>>(), want, "{name:?}");
            assert_eq!(fields.first(*name), want.first().copied(), "{name:?}");
            assert_eq!(
                (fields.has(*name), fields.is_repeated(*name)),
                (!want.is_empty(), want.len() > 1),
                "{name:?}"
            );
        }
        assert_eq!(fields.iter().last(), Some((&b"if-match"[..], &b"3"[..])));
    }

    #[test]
    #[should_panic(expected = "a value lies in the bytes of its section")]
    fn a_place_outside_the_bytes_is_a_bug() {
        Fields::decoded(&[], &[FieldPlace { name: Place::default(), value: Place { at: 0, len: 1 } }]);
    }

    proptest! {
        #[test]
        fn decoded_fields_equal_those_of_the_same_lines(
            list in proptest::collection::vec(
                (proptest::sample::select(&["Host", "Range", "IF-RANGE", "Accept", "Cookie", "accept-encoding"][..]), "[a-z]([ -~]{0,20}[a-z])?"),
                0..12,
            )
        ) {
            let list: Vec<_> = list.iter().map(|(name, value)| (*name, &**value)).collect();
            let lines: String = list.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let wire = format!("GET / HTTP/1.1\r\n{lines}\r\n");
            let (head, _) = head::parse(wire.as_bytes()).unwrap().unwrap();
            let (bytes, places) = decode(&list);
            let decoded = Fields::decoded(&bytes, &places);
            for name in FieldName::ALL {
                prop_assert_eq!(head.fields.first(name), decoded.first(name));
                prop_assert_eq!(head.fields.is_repeated(name), decoded.is_repeated(name));
                prop_assert!(head.fields.all(name).eq(decoded.all(name)));
            }
            let lower = |(name, value): (&[u8], &[u8])| (name.to_ascii_lowercase(), value.to_vec());
            prop_assert!(head.fields.iter().map(lower).eq(decoded.iter().map(lower)));
        }
    }
}
