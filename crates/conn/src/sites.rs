//! The images a worker serves from, and who still needs them.
//!
//! ```text
//! add ──▶ serve: current ──serve──▶ earlier, if kept ──serve──▶ held by exchanges ──last release──▶ retired
//! ```
//!
//! A new exchange is planned from the current image, and where that has nothing perhaps from an earlier one that is
//! kept (`kept.rs`); one under way keeps the image it began with. Who has retired, the worker unmaps.
//! Knows nothing of descriptors or maps.

use std::mem;
use tarpon_site::Image;

/// Names an image of this worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageId(u16);

impl ImageId {
    /// A small number, used again once its image has retired.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The images of one worker.
pub struct Sites {
    slots: Vec<Slot>,
    current: ImageId,
    /// Earlier ones, the latest first.
    earlier: Vec<ImageId>,
    /// What is there was looked at.
    asked: bool,
}

struct Slot {
    image: Option<Image>,
    /// Spans that name the image.
    holders: u32,
}

impl Sites {
    /// Serves one image.
    pub fn new(image: Image) -> Sites {
        let slots = vec![Slot { image: Some(image), holders: 0 }];
        Sites { slots, current: ImageId(0), earlier: Vec::new(), asked: false }
    }

    /// From now on exchanges are planned from `image` alone. Returns its name.
    pub fn swap(&mut self, image: Image) -> ImageId {
        let id = self.add(image);
        self.serve(id, Vec::new());
        id
    }

    /// Gives an image a name, to be [served](Sites::serve).
    pub fn add(&mut self, image: Image) -> ImageId {
        let free = self.slots.iter().position(|slot| slot.image.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push(Slot { image: None, holders: 0 });
            self.slots.len() - 1
        });
        self.slots[index].image = Some(image);
        // Each image beyond the first two is kept on purpose, or by a response under way; those are far fewer than 2^16.
        ImageId(u16::try_from(index).expect("fewer images than responses under way"))
    }

    /// From now on exchanges are planned from `current`; and where that has nothing, from what of the `earlier` ones is
    /// kept for pages that were loaded before, the latest first. Any other image is [retired] when no span names it any
    /// more.
    ///
    /// [retired]: Sites::retire
    pub fn serve(&mut self, current: ImageId, earlier: Vec<ImageId>) {
        self.current = current;
        self.earlier = earlier;
    }

    /// Forgets the images that are neither served nor named by a span, and tells which.
    pub fn retire(&mut self) -> impl Iterator<Item = ImageId> + '_ {
        let Sites { slots, current, earlier, .. } = self;
        slots.iter_mut().enumerate().filter_map(move |(index, slot)| {
            let id = ImageId(index as u16);
            let over = slot.holders == 0 && id != *current && !earlier.contains(&id);
            over.then(|| slot.image.take()).flatten().map(|_| id)
        })
    }

    /// The image that new exchanges are planned from.
    #[inline]
    pub fn current(&self) -> (ImageId, &Image) {
        (self.current, self.image(self.current))
    }

    /// Images of earlier releases, the latest first.
    #[inline]
    pub fn earlier(&self) -> &[ImageId] {
        &self.earlier
    }

    /// Whether an answer may have come from an earlier image, since this was asked before.
    #[inline]
    pub fn were_earlier_asked(&mut self) -> bool {
        mem::take(&mut self.asked)
    }

    /// Somebody is about to ask them. Returns whether there are any.
    #[inline]
    pub(crate) fn ask_earlier(&mut self) -> bool {
        self.asked |= !self.earlier.is_empty();
        !self.earlier.is_empty()
    }

    /// An image that is served or named by a span.
    #[inline]
    pub fn image(&self, id: ImageId) -> &Image {
        self.slots[id.index()].image.as_ref().expect("an image outlives the spans that name it")
    }

    /// How many spans name an image of this worker.
    pub fn holders(&self) -> u64 {
        self.slots.iter().map(|slot| slot.holders as u64).sum()
    }

    #[inline]
    pub(crate) fn hold(&mut self, id: ImageId) {
        self.slots[id.index()].holders += 1;
    }

    #[inline]
    pub(crate) fn release(&mut self, id: ImageId) {
        let holders = &mut self.slots[id.index()].holders;
        assert!(*holders > 0, "released once too often");
        *holders -= 1;
    }
}
