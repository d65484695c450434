//! The content of a response as a cursor: the part that is not queued yet.
//!
//! HTTP/1 queues all of it at once. A protocol with several responses on one connection queues as much as its windows allow, and the rest
//! when they open.

use tarpon_site::Content;

/// The part of a content that is not queued yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentCursor {
    /// `None`: all of it is queued.
    rest: Option<Content>,
}

impl ContentCursor {
    /// Returns a cursor at the start of a content.
    #[inline]
    pub(crate) fn new(content: Content) -> ContentCursor {
        ContentCursor { rest: Some(content).filter(|content| content.len() > 0) }
    }

    /// Takes the next part, of at most `len_max` bytes. `None`: no part is left, or `len_max` is 0.
    #[inline]
    pub(crate) fn take(&mut self, len_max: u64) -> Option<Content> {
        let content = self.rest.filter(|_| len_max > 0)?;
        let len = content.len().min(len_max);
        self.rest = Some(content.part(len, content.len() - len)).filter(|rest| rest.len() > 0);
        Some(content.part(0, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use tarpon_site::Region;

    proptest! {
        #[test]
        fn parts_are_the_content_in_order(len in 0u64..100_000, lens in vec(0u64..5_000, 0..50)) {
            let contents = [
                Content::Image(Region { at: 7, len }),
                Content::File { number: 3, at: 7, len },
                Content::Archive(Region { at: 7, len }),
            ];
            for content in contents {
                let (mut cursor, mut taken) = (ContentCursor::new(content), 0);
                for len_max in lens.iter().copied().chain([u64::MAX]) {
                    let Some(part) = cursor.take(len_max) else { continue };
                    prop_assert_eq!(part, content.part(taken, part.len()));
                    prop_assert!((1..=len_max).contains(&part.len()));
                    taken += part.len();
                }
                prop_assert_eq!((taken, cursor.take(u64::MAX)), (len, None));
            }
        }
    }
}
