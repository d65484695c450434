//! The images a worker serves from, and who still needs them.
//!
//! ```text
//! swap ──▶ current ──swap──▶ held by exchanges ──last release──▶ retired ──▶ the worker unmaps it
//! ```
//!
//! A new exchange is planned from the current image; one under way keeps the image it began with.
//! Knows nothing of descriptors or maps.

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
}

struct Slot {
    image: Option<Image>,
    /// Spans that name the image.
    holders: u32,
}

impl Sites {
    /// Serves one image.
    pub fn new(image: Image) -> Sites {
        Sites { slots: vec![Slot { image: Some(image), holders: 0 }], current: ImageId(0) }
    }

    /// From now on exchanges are planned from `image`. Returns its name. The former one is [retired]
    /// when no span names it any more.
    ///
    /// [retired]: Sites::retire
    pub fn swap(&mut self, image: Image) -> ImageId {
        let free = self.slots.iter().position(|slot| slot.image.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push(Slot { image: None, holders: 0 });
            self.slots.len() - 1
        });
        self.slots[index].image = Some(image);
        // Each image beyond the first two is kept by a response under way; those are far fewer than 2^16.
        self.current = ImageId(u16::try_from(index).expect("fewer images than responses under way"));
        self.current
    }

    /// Forgets the images that are neither current nor named by a span, and tells which.
    pub fn retire(&mut self) -> impl Iterator<Item = ImageId> + '_ {
        let current = self.current.index();
        self.slots.iter_mut().enumerate().filter_map(move |(index, slot)| {
            let over = index != current && slot.holders == 0;
            over.then(|| slot.image.take()).flatten().map(|_| ImageId(index as u16))
        })
    }

    /// The image that new exchanges are planned from.
    #[inline]
    pub fn current(&self) -> (ImageId, &Image) {
        (self.current, self.image(self.current))
    }

    /// An image that is current or named by a span.
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
