//! The sites of a worker, and the images that it serves them from.
//!
//! ```text
//! request ─ route ─▶ site ─┬─ limits
//!                          ├─ current image ◀─ serve ─ add ◀── an image
//!                          └─ earlier images, if retained └─ held by spans ─ last release ─▶ retired
//! ```
//!
//! A new exchange is planned from the current image of its site. If that image has nothing at the path, an earlier image may
//! (`retained_assets.rs`). An exchange in progress keeps the image that it began with. The worker unmaps retired images; this module
//! handles neither descriptors nor maps.

use crate::{
    Limits,
    backend::{BackendId, BackendRoute},
    challenge::{Challenge, FindChallenge},
    functions::{CollectBudget, InlineFunction, InlineFunctions},
    hosts::{HostMatch, Hosts},
    path_limits::{ClientLimits, WorkerLimits},
    proxy_trust::ProxyTrust,
    request::Request,
    route_table::{FoundRoute, RouteTable, RouteTableId},
};
use std::{iter, mem, ops::Range, sync::Arc};
use tarpon_http::target::Scheme;
use tarpon_site::{Image, NotResident, Region};

/// The name of an image in one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageId(u16);

impl ImageId {
    /// Returns the number of the image. It is small: a new image reuses the number of a retired one.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The name of a site: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(u16);

impl SiteId {
    /// The maximum number of sites. The limits on open files and mapped archives are reached earlier.
    pub const COUNT_MAX: usize = 1 << 15;

    /// The first site, which is the only one of a worker with one site.
    pub const FIRST: SiteId = SiteId(0);

    /// Returns the site with this number, counted from 0.
    ///
    /// # Panics
    /// Panics if `number` is not below [`COUNT_MAX`](SiteId::COUNT_MAX).
    pub fn new(number: usize) -> SiteId {
        assert!(number < SiteId::COUNT_MAX, "a site number is below COUNT_MAX");
        SiteId(number as u16)
    }

    /// Returns the number of the site.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The sites of one worker.
pub struct Sites {
    /// The sites by number. Invariant: never empty.
    rows: Vec<SiteRow>,
    /// The routes to the sites, by listener. `None`: every request is for the first site.
    routes: Option<Arc<[RouteTable]>>,
    /// Without routes: the port that the first site redirects requests without TLS to, if it does.
    https_port: Option<u16>,
    /// The path of health checks.
    health_path: Option<Arc<[u8]>>,
    /// The answers to directories that check names. If it is set, `routes` is set too.
    challenges: Option<FindChallenge>,
    /// The functions that respond in the place of backends.
    functions: InlineFunctions,
    /// The proxies that are trusted to name the client.
    proxy_trust: Arc<ProxyTrust>,
    /// The limits of clients. `None`: no path has one.
    client_limits: Option<Box<WorkerLimits>>,
    /// The images by number.
    slots: Vec<ImageSlot>,
    /// The images that no site is served from any more. Spans may still name them.
    retiring: Vec<ImageId>,
    /// A range of site numbers that includes each site requested since the last [`take_requested`](Sites::take_requested).
    requested: Range<u16>,
    /// Whether a plan may have used an earlier image since the last [`take_earlier_used`](Sites::take_earlier_used).
    earlier_used: bool,
}

/// A site.
struct SiteRow {
    current: ImageId,
    /// Images of earlier releases, the latest first.
    earlier: Vec<ImageId>,
    limits: Limits,
}

/// The place of an image.
struct ImageSlot {
    /// `None`: the image has retired, and the place is free.
    image: Option<Image>,
    /// The number of spans that name the image.
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

/// The destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// This site.
    Site(SiteId),
    /// This site, which looks up this part of the path: empty for the mount without a slash.
    Mount(SiteId, &'a [u8]),
    /// A redirect to the canonical host of this site: the request is for one of its redirect hosts.
    RedirectHost(SiteId),
    /// A redirect to the same target with TLS, at this port: this site answers no request without.
    Https(SiteId, u16),
    /// No site, for this reason. This site sends the status page.
    NoSite(SiteId, NoSite),
    /// The answer to an ACME directory that checks a name.
    Challenge(SiteId, Challenge),
    /// A backend. This site sends status pages.
    Backend(SiteId, BackendRoute),
}

/// The reason why no site answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSite {
    /// The server has nothing at the host, or only at other listeners.
    Host,
    /// The server has sites at the host, but none at the path.
    Path,
}

impl MissingPage {
    /// Returns the page of an image that a lookup has not found in memory.
    pub(crate) fn new(image: ImageId, NotResident { page }: NotResident) -> MissingPage {
        MissingPage { image, page }
    }
}

impl Sites {
    /// Returns one site with one image, for all hosts.
    pub fn new(image: Image, limits: Limits) -> Sites {
        Sites::by_host([(image, limits)], Arc::new(Hosts::new(Some(SiteId::FIRST))))
    }

    /// Returns several sites, each with one image. A site has the number of its place in `images`, which `hosts` refers to.
    ///
    /// # Panics
    /// Panics if `images` is empty.
    pub fn by_host(images: impl IntoIterator<Item = (Image, Limits)>, hosts: Arc<Hosts>) -> Sites {
        Sites::by_route(images, [RouteTable::new(hosts)].into())
    }

    /// Returns several sites, as [`by_host`](Sites::by_host), with routes that may depend on the listener and on the path too. There is a table
    /// for each [`RouteTableId`] of a client.
    ///
    /// # Panics
    /// Panics if `images` or `routes` is empty.
    pub fn by_route(images: impl IntoIterator<Item = (Image, Limits)>, routes: Arc<[RouteTable]>) -> Sites {
        let (mut rows, mut slots) = (Vec::new(), Vec::new());
        for (image, limits) in images {
            let current = ImageId(SiteId::new(slots.len()).0);
            slots.push(ImageSlot { image: Some(image), holders: 0 });
            rows.push(SiteRow { current, earlier: Vec::new(), limits });
        }
        assert!(!rows.is_empty() && !routes.is_empty(), "at least one site, and one table");
        let https_port = routes.iter().find_map(|table| table.https_port(SiteId::FIRST));
        let routes = (!routes.iter().all(RouteTable::always_leads_to_first_site)).then_some(routes);
        // With a single choice, no request records its site.
        let requested = if routes.is_none() { 0..1 } else { 0..0 };
        Sites {
            rows,
            routes,
            https_port,
            health_path: None,
            challenges: None,
            functions: InlineFunctions::default(),
            proxy_trust: Arc::default(),
            client_limits: None,
            slots,
            retiring: Vec::new(),
            requested,
            earlier_used: false,
        }
    }

    /// Sets the path of health checks, with which load balancers ask whether to send clients here. It applies to all hosts. A file or rule
    /// that a site has at this path takes precedence.
    pub fn set_health_path(&mut self, path: Arc<[u8]>) {
        self.health_path = Some(path);
    }

    /// Sets the lookup of answers to ACME directories, which come before all routes. `routes`: those of [`by_route`](Sites::by_route).
    pub fn set_challenges(&mut self, find: FindChallenge, routes: Arc<[RouteTable]>) {
        // So that a server without challenges has no further branch: with a single site, too, the tables decide.
        self.routes = Some(routes);
        self.challenges = Some(find);
    }

    /// Returns the lookup of answers to ACME directories.
    pub(crate) fn challenges(&self) -> Option<&FindChallenge> {
        self.challenges.as_ref()
    }

    /// Adds a function that responds in the place of a backend. The content of its requests counts towards the budget.
    pub fn add_function(
        &mut self,
        backend: BackendId,
        function: Arc<dyn InlineFunction>,
        budget: &CollectBudget,
    ) {
        self.functions.add(backend, function, budget);
    }

    /// Returns the functions that respond in the place of backends.
    pub(crate) fn functions(&self) -> &InlineFunctions {
        &self.functions
    }

    /// Sets the proxies that are trusted to name the client, for new connections.
    pub fn set_proxy_trust(&mut self, trust: Arc<ProxyTrust>) {
        self.proxy_trust = trust;
    }

    /// Returns the proxies that are trusted.
    pub(crate) fn proxy_trust(&self) -> &ProxyTrust {
        &self.proxy_trust
    }

    /// Sets the limits of clients, for new connections. `start_us`: the time of the table of rates at which the clock of this worker was 0.
    pub fn set_client_limits(&mut self, limits: Arc<ClientLimits>, start_us: u64) {
        self.client_limits = Some(Box::new(WorkerLimits { limits, start_us }));
    }

    /// Sets the time of the table of rates at which the clock of this worker was 0.
    pub fn set_limits_start(&mut self, start_us: u64) {
        if let Some(limits) = &mut self.client_limits {
            limits.start_us = start_us;
        }
    }

    /// Returns the limits of clients.
    #[inline]
    pub(crate) fn client_limits(&self) -> Option<&WorkerLimits> {
        self.client_limits.as_deref()
    }

    /// Replaces the images of a site with `image`, for new exchanges. Returns its name.
    pub fn swap(&mut self, site: SiteId, image: Image) -> ImageId {
        let id = self.add(image);
        self.serve(site, id, Vec::new());
        id
    }

    /// Adds an image, which no site is served from until [`serve`](Sites::serve). Returns its name.
    pub fn add(&mut self, image: Image) -> ImageId {
        let free = self.slots.iter().position(|slot| slot.image.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push(ImageSlot { image: None, holders: 0 });
            self.slots.len() - 1
        });
        self.slots[index].image = Some(image);
        // A site has two images during a reload. All others are retained assets, or held by a response: far fewer than 2^16.
        ImageId(u16::try_from(index).expect("fewer than 2^16 images"))
    }

    /// Sets the images of a site for new exchanges. They are planned from `current`. If it has nothing at a path, assets are served from
    /// the `earlier` images, the latest first, for pages that were loaded before the change. The other images of the site
    /// [retire](Sites::retire) when no span names them.
    pub fn serve(&mut self, site: SiteId, current: ImageId, earlier: Vec<ImageId>) {
        let row = &mut self.rows[site.index()];
        let before = mem::replace(&mut row.current, current);
        let earlier_before = mem::replace(&mut row.earlier, earlier);
        let is_served = |id: &ImageId| *id == row.current || row.earlier.contains(id);
        self.retiring.extend([before].into_iter().chain(earlier_before));
        self.retiring.retain(|id| !is_served(id));
    }

    /// Returns whether images wait to be [retired](Sites::retire).
    #[inline]
    pub fn has_retiring(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// Drops the images that are neither served nor named by a span. Returns their names; each image is dropped when the iterator returns
    /// its name.
    #[inline]
    pub fn retire(&mut self) -> impl Iterator<Item = ImageId> + '_ {
        iter::from_fn(|| {
            let is_unused = |id: &ImageId| self.slots[id.index()].holders == 0;
            let id =
                self.retiring.iter().position(is_unused).map(|place| self.retiring.swap_remove(place))?;
            self.slots[id.index()].image = None;
            Some(id)
        })
    }

    /// Returns the route of a request.
    #[inline]
    pub(crate) fn route<'a>(&mut self, routes: RouteTableId, request: &Request<'a>) -> Route<'a> {
        match &self.routes {
            None => match self.https_port {
                Some(port) if request.client.scheme != Some(Scheme::Https) => {
                    Route::Https(SiteId::FIRST, port)
                }
                _ => Route::Site(SiteId::FIRST),
            },
            Some(_) => self.route_by_table(routes, request),
        }
    }

    /// Returns whether the first site answers every request of a connection, whatever its client is.
    pub(crate) fn has_only_site(&self, has_tls: bool) -> bool {
        let leaves_paths = |limits: &WorkerLimits| limits.limits.leave_paths(SiteId::FIRST);
        self.routes.is_none()
            && self.client_limits().is_none_or(leaves_paths)
            && (has_tls || self.https_port.is_none())
    }

    #[inline(never)]
    fn route_by_table<'a>(&mut self, of: RouteTableId, request: &Request<'a>) -> Route<'a> {
        let fallback = self.fallback(of);
        if let Some(find) = &self.challenges
            && let Some(challenge) = Challenge::find(request, find)
        {
            return Route::Challenge(fallback, challenge);
        }
        let routes = self.table(of).expect("several routes");
        let host_match = request.authority.and_then(|host| routes.hosts().find(host));
        let is_other_listeners = matches!(host_match, Some(HostMatch::OtherListener(_)));
        let route = match (host_match, routes.find(request, !is_other_listeners)) {
            // A redirect host has nothing of its own.
            (Some(HostMatch::RedirectHost(site)), _) => Route::RedirectHost(site),
            // A route to a backend is in the tables of all listeners, and what a listener asks of its clients holds for it too.
            (Some(HostMatch::OtherListener(_)), None | Some(FoundRoute::Backend(_))) => {
                Route::NoSite(fallback, NoSite::Host)
            }
            (Some(HostMatch::Site(site)), Some(FoundRoute::Backend(to))) => Route::Backend(site, to),
            (_, Some(FoundRoute::Backend(to))) => Route::Backend(fallback, to),
            (_, Some(FoundRoute::Mount(site, rest))) => Route::Mount(site, rest),
            (_, Some(FoundRoute::Site(site))) | (Some(HostMatch::Site(site)), None) => Route::Site(site),
            (None, None) => match routes.hosts().default() {
                Some(site) => Route::Site(site),
                None if routes.has_host(request.authority) => Route::NoSite(fallback, NoSite::Path),
                None => Route::NoSite(fallback, NoSite::Host),
            },
        };
        let route = match route {
            Route::Site(site) => routes.site_backends().find(site, request.path()).map(|to| (site, to)),
            Route::Mount(site, rest) => routes.site_backends().find(site, Some(rest)).map(|to| (site, to)),
            _ => None,
        }
        .map_or(route, |(site, to)| Route::Backend(site, to));
        let route = match (route, routes.https_port(route.site())) {
            (Route::Site(site) | Route::Mount(site, _) | Route::Backend(site, _), Some(port))
                if request.client.scheme != Some(Scheme::Https) =>
            {
                Route::Https(site, port)
            }
            _ => route,
        };
        let SiteId(number) = route.site();
        self.requested = match self.requested.is_empty() {
            true => number..number + 1,
            false => self.requested.start.min(number)..self.requested.end.max(number + 1),
        };
        route
    }

    /// Returns the sites that requests were for since the last call, and perhaps others. With a single site, always returns that.
    #[inline]
    pub fn take_requested(&mut self) -> impl Iterator<Item = SiteId> + use<> {
        let requested = self.requested.clone();
        if self.routes.is_some() {
            self.requested = 0..0;
        }
        requested.map(SiteId)
    }

    /// Returns the path of health checks, if they are on.
    #[inline]
    pub(crate) fn health_path(&self) -> Option<&[u8]> {
        self.health_path.as_deref()
    }

    /// Returns the site that responds while the site of a request is unknown: the default site, or the first.
    #[inline]
    pub(crate) fn fallback(&self, routes: RouteTableId) -> SiteId {
        self.table(routes).map_or(SiteId::FIRST, RouteTable::fallback)
    }

    fn table(&self, RouteTableId(number): RouteTableId) -> Option<&RouteTable> {
        self.routes.as_ref().map(|tables| &tables[number as usize])
    }

    /// Returns the canonical host of a site that has redirect hosts.
    pub(crate) fn canonical(&self, site: SiteId) -> &[u8] {
        self.routes
            .iter()
            .flat_map(|tables| &**tables)
            .find_map(|routes| routes.hosts().canonical(site))
            .expect("a site with redirect hosts has a canonical host")
    }

    /// Returns the image that new exchanges of a site are planned from.
    #[inline]
    pub fn current(&self, site: SiteId) -> (ImageId, &Image) {
        let current = self.current_id(site);
        (current, self.image(current))
    }

    /// Returns the name of the image that new exchanges of a site are planned from.
    #[inline]
    pub fn current_id(&self, site: SiteId) -> ImageId {
        self.rows[site.index()].current
    }

    /// Returns the limits of a site.
    #[inline]
    pub fn limits(&self, site: SiteId) -> &Limits {
        &self.rows[site.index()].limits
    }

    /// Returns the limits of a site, to change them.
    pub fn limits_mut(&mut self, site: SiteId) -> &mut Limits {
        &mut self.rows[site.index()].limits
    }

    /// Returns the images of earlier releases of a site, the latest first.
    #[inline]
    pub fn earlier(&self, site: SiteId) -> &[ImageId] {
        &self.rows[site.index()].earlier
    }

    /// Returns whether a response may come from an earlier image, since the last call.
    #[inline]
    pub fn take_earlier_used(&mut self) -> bool {
        mem::take(&mut self.earlier_used)
    }

    /// Records that a plan is about to use the earlier images of a site. Returns whether there are any.
    #[inline]
    pub(crate) fn use_earlier(&mut self, site: SiteId) -> bool {
        let any = !self.earlier(site).is_empty();
        self.earlier_used |= any;
        any
    }

    /// Returns an image that is served or named by a span.
    #[inline(always)]
    pub fn image(&self, id: ImageId) -> &Image {
        self.slots[id.index()].image.as_ref().expect("an image outlives the spans that name it")
    }

    /// Returns the number of spans that name an image.
    pub fn holder_count(&self) -> u64 {
        self.slots.iter().map(|slot| slot.holders as u64).sum()
    }

    /// Adds a holder to an image.
    #[inline]
    pub(crate) fn hold(&mut self, id: ImageId) {
        self.slots[id.index()].holders += 1;
    }

    /// Removes a holder of an image.
    #[inline]
    pub(crate) fn release(&mut self, id: ImageId) {
        let holders = &mut self.slots[id.index()].holders;
        assert!(*holders > 0, "an image is released once for each hold");
        *holders -= 1;
    }
}

impl Route<'_> {
    /// Returns the site of the route.
    #[inline]
    pub(crate) fn site(self) -> SiteId {
        let (Route::Site(site)
        | Route::Mount(site, _)
        | Route::RedirectHost(site)
        | Route::Https(site, _)
        | Route::NoSite(site, _)
        | Route::Challenge(site, _)
        | Route::Backend(site, _)) = self;
        site
    }
}
