//! The sites of a worker: the images they are served from, and who still needs these.
//!
//! ```text
//! head ─ choose ─▶ site ─┬─ limits
//!                        ├─ current image ◀─ serve ─ add ◀── an image
//!                        └─ earlier ones, if kept       └─ held by exchanges ─ last release ─▶ retired
//! ```
//!
//! A new exchange is planned from the current image of its site, and where that has nothing perhaps from an earlier one that
//! is kept (`kept.rs`); one under way keeps the image it began with. Who has retired, the worker unmaps.
//! Knows nothing of descriptors or maps.

use crate::{
    Limits,
    hosts::{HostMatch, Hosts},
    request::Request,
};
use std::{iter, mem, ops::Range, sync::Arc};
use tarpon_site::{Image, NotResident, Region};

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

/// Names a site, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(u16);

impl SiteId {
    /// Sites there can be: the limits on open files and mapped archives come first.
    pub const COUNT_MAX: usize = 1 << 15;

    /// Of a worker with one site, that.
    pub const FIRST: SiteId = SiteId(0);

    /// The site of this number, counted from 0.
    ///
    /// # Panics
    /// If there cannot be so many.
    pub fn new(number: usize) -> SiteId {
        assert!(number < SiteId::COUNT_MAX, "more sites than there can be");
        SiteId(number as u16)
    }

    /// Its number.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The sites of one worker.
pub struct Sites {
    /// By number. Never empty.
    rows: Vec<Row>,
    /// `None`: whatever the host, the first site is meant.
    hosts: Option<Arc<Hosts>>,
    /// What answers where no site is known: the default one, or the first.
    fallback: SiteId,
    /// Where load balancers ask.
    health_path: Option<Arc<[u8]>>,
    /// Images.
    slots: Vec<Slot>,
    /// Images that no site is served from any more. Spans may still name them.
    leaving: Vec<ImageId>,
    /// Those among which are all that were chosen since somebody asked for them.
    chosen: Range<u16>,
    /// Earlier images may have been looked at since somebody asked.
    asked_earlier: bool,
}

/// A site.
struct Row {
    current: ImageId,
    /// Earlier ones, the latest first.
    earlier: Vec<ImageId>,
    limits: Limits,
}

struct Slot {
    image: Option<Image>,
    /// Spans that name the image.
    holders: u32,
}

/// A page of an image that a plan needs and that may not be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingPage {
    /// The image.
    pub image: ImageId,
    /// The page, as a region of the file that the image lies in.
    pub page: Region,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To this site.
    Site(SiteId),
    /// To the canonical host of this site: the request is for one of its other hosts.
    Alias(SiteId),
    /// To no site. This one sends the status page.
    NoSite(SiteId),
}

impl MissingPage {
    /// Returns the page of an image that a lookup has not found in memory.
    pub(crate) fn new(image: ImageId, NotResident { page }: NotResident) -> MissingPage {
        MissingPage { image, page }
    }
}

impl Sites {
    /// Serves one image, whatever the host.
    pub fn new(image: Image, limits: Limits) -> Sites {
        Sites::by_host([(image, limits)], Arc::new(Hosts::new(Some(SiteId::FIRST))))
    }

    /// Serves several images, by host. Each is the image of that index.
    ///
    /// # Panics
    /// If there is none.
    pub fn by_host(images: impl IntoIterator<Item = (Image, Limits)>, hosts: Arc<Hosts>) -> Sites {
        let (mut rows, mut slots) = (Vec::new(), Vec::new());
        for (image, limits) in images {
            let current = ImageId(SiteId::new(slots.len()).0);
            slots.push(Slot { image: Some(image), holders: 0 });
            rows.push(Row { current, earlier: Vec::new(), limits });
        }
        assert!(!rows.is_empty(), "at least one site");
        let fallback = hosts.default().unwrap_or(SiteId::FIRST);
        let hosts = (!hosts.are_needless()).then_some(hosts);
        // Where there is no choice, nobody notes one.
        let chosen = if hosts.is_none() { 0..1 } else { 0..0 };
        let (health_path, leaving) = (None, Vec::new());
        Sites { rows, hosts, fallback, health_path, slots, leaving, chosen, asked_earlier: false }
    }

    /// Load balancers may ask at this path whether clients are to be sent here, whatever the host: where a site has nothing.
    pub fn set_health_path(&mut self, path: Arc<[u8]>) {
        self.health_path = Some(path);
    }

    /// From now on exchanges of a site are planned from `image` alone. Returns its name.
    pub fn swap(&mut self, site: SiteId, image: Image) -> ImageId {
        let id = self.add(image);
        self.serve(site, id, Vec::new());
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
        // Each image beyond two for each site is kept on purpose, or by a response under way; those are far fewer than 2^16.
        ImageId(u16::try_from(index).expect("fewer images than responses under way"))
    }

    /// From now on exchanges of a site are planned from `current`; and where that has nothing, from what of the `earlier`
    /// ones is kept for pages that were loaded before, the latest first. Its other images [retire] when no span names them
    /// any more.
    ///
    /// [retire]: Sites::retire
    pub fn serve(&mut self, site: SiteId, current: ImageId, earlier: Vec<ImageId>) {
        let row = &mut self.rows[site.index()];
        let before = mem::replace(&mut row.current, current);
        let earlier_before = mem::replace(&mut row.earlier, earlier);
        let served = |id: &ImageId| *id == row.current || row.earlier.contains(id);
        self.leaving.extend([before].into_iter().chain(earlier_before));
        self.leaving.retain(|id| !served(id));
    }

    /// Forgets the images that are neither served nor named by a span, and tells which.
    #[inline]
    pub fn retire(&mut self) -> impl Iterator<Item = ImageId> + '_ {
        iter::from_fn(|| {
            let is_over = |id: &ImageId| self.slots[id.index()].holders == 0;
            let id = self.leaving.iter().position(is_over).map(|place| self.leaving.swap_remove(place))?;
            self.slots[id.index()].image = None;
            Some(id)
        })
    }

    /// Returns the route of a request.
    #[inline]
    pub(crate) fn route(&mut self, request: &Request<'_>) -> Route {
        match &self.hosts {
            None => Route::Site(SiteId::FIRST),
            Some(_) => self.route_by_host(request),
        }
    }

    #[inline(never)]
    fn route_by_host(&mut self, request: &Request<'_>) -> Route {
        let hosts = self.hosts.as_ref().expect("several hosts");
        let route = match (request.authority().and_then(|host| hosts.find(host)), hosts.default()) {
            (Some(HostMatch::Site(site)), _) | (None, Some(site)) => Route::Site(site),
            (Some(HostMatch::Alias(site)), _) => Route::Alias(site),
            (None, None) => Route::NoSite(self.fallback),
        };
        let SiteId(number) = route.site();
        self.chosen = match self.chosen.is_empty() {
            true => number..number + 1,
            false => self.chosen.start.min(number)..self.chosen.end.max(number + 1),
        };
        route
    }

    /// The sites that requests were for since this was asked before, and perhaps some more. Of a worker with one site, that.
    #[inline]
    pub fn chosen(&mut self) -> impl Iterator<Item = SiteId> + use<> {
        let chosen = self.chosen.clone();
        if self.hosts.is_some() {
            self.chosen = 0..0;
        }
        chosen.map(SiteId)
    }

    /// Where load balancers ask, if they may.
    #[inline]
    pub(crate) fn health_path(&self) -> Option<&[u8]> {
        self.health_path.as_deref()
    }

    /// What answers where no site is known yet.
    #[inline]
    pub(crate) fn fallback(&self) -> SiteId {
        self.fallback
    }

    /// Where the redirect hosts of a site lead.
    pub(crate) fn canonical(&self, site: SiteId) -> &[u8] {
        self.hosts.as_ref().and_then(|hosts| hosts.canonical(site)).expect("an alias redirect to a name")
    }

    /// The image that new exchanges of a site are planned from.
    #[inline]
    pub fn current(&self, site: SiteId) -> (ImageId, &Image) {
        let current = self.rows[site.index()].current;
        (current, self.image(current))
    }

    /// What a site grants its clients.
    #[inline]
    pub fn limits(&self, site: SiteId) -> &Limits {
        &self.rows[site.index()].limits
    }

    /// The same, to be changed.
    pub fn limits_mut(&mut self, site: SiteId) -> &mut Limits {
        &mut self.rows[site.index()].limits
    }

    /// Images of earlier releases of a site, the latest first.
    #[inline]
    pub fn earlier(&self, site: SiteId) -> &[ImageId] {
        &self.rows[site.index()].earlier
    }

    /// Whether an answer may have come from an earlier image, since this was asked before.
    #[inline]
    pub fn were_earlier_asked(&mut self) -> bool {
        mem::take(&mut self.asked_earlier)
    }

    /// Somebody is about to ask those of a site. Returns whether there are any.
    #[inline]
    pub(crate) fn ask_earlier(&mut self, site: SiteId) -> bool {
        let any = !self.earlier(site).is_empty();
        self.asked_earlier |= any;
        any
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

impl Route {
    /// The site it is about.
    #[inline]
    pub(crate) fn site(self) -> SiteId {
        let (Route::Site(site) | Route::Alias(site) | Route::NoSite(site)) = self;
        site
    }
}
