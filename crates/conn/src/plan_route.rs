//! Plans the response of a route that needs no backend.
//!
//! ```text
//! Request, Route ─┬ site, mount ─ plan ─┬─ nothing there ─▶ health check, or an earlier image ─┐
//!                 │                     └──────────────────────────────────────────────────────┴─▶ Plan
//!                 └ health check, challenge, another host, no site ────────────────────────────────▶ Plan
//! ```

use crate::{
    log_paths,
    path_limits::Refusal,
    plan::{self, Generated, Plan, PlanOptions},
    request::Request,
    retained_assets,
    sites::{ImageId, Route, SiteId, Sites},
};
use tarpon_site::NotResident;

/// The response of a route.
pub(crate) struct PlannedRoute {
    /// The image that the plan names places of.
    pub(crate) image: ImageId,
    /// An error: a page of the image must be in memory first.
    pub(crate) planned: Result<Plan, NotResident>,
}

impl PlannedRoute {
    /// Keeps the response out of shared caches.
    #[cold]
    pub(crate) fn into_private(mut self) -> PlannedRoute {
        if let Ok(plan) = &mut self.planned {
            plan.make_private();
        }
        self
    }
}

/// Plans the response of a route that leads to no backend.
#[inline]
pub(crate) fn plan_route(
    sites: &mut Sites,
    request: &Request<'_>,
    route: Route<'_>,
    options: PlanOptions,
    is_stopping: bool,
) -> PlannedRoute {
    let site = route.site();
    let below_mount;
    let site_request = match route {
        Route::Mount(_, rest) => {
            below_mount = request.with_path(rest);
            &below_mount
        }
        _ => request,
    };
    let (mut image, current) = sites.current(site);
    let other = match route {
        Route::Site(_) | Route::Mount(..) => None,
        _ => plan_other(sites, request, route, is_stopping),
    };
    let mut planned = match other {
        None => plan::plan(site_request, current, options),
        Some(plan) => Ok(plan),
    };
    if let Ok(Plan { not_found: true, .. }) = planned {
        match plan_health(sites, request, is_stopping) {
            Some(plan) => planned = Ok(plan),
            None => plan_retained(sites, site_request, site, options, &mut image, &mut planned),
        }
    }
    PlannedRoute { image, planned }
}

/// Plans the response to a request that the limits of clients refuse.
#[cold]
pub(crate) fn refused(sites: &Sites, request: &Request<'_>, site: SiteId, refusal: Refusal) -> PlannedRoute {
    let (image, current) = sites.current(site);
    PlannedRoute { image, planned: Ok(plan::refused(refusal, current, request.with_content())) }
}

/// Returns whether the site logs an exchange: no path keeps it out.
pub(crate) fn is_logged(sites: &Sites, request: &Request<'_>, route: Route<'_>, plan: &Plan) -> bool {
    let (_, current) = sites.current(route.site());
    match route {
        Route::Mount(_, rest) => log_paths::is_logged(&request.with_path(rest), current),
        Route::Site(_) => log_paths::is_logged(request, current),
        _ if matches!(plan.generated, Generated::Health(_)) => log_paths::is_logged(request, current),
        _ => true,
    }
}

/// Plans the response of a route that leads to no site: to a health check, or one that depends on the host. `None`: the site plans it.
#[cold]
#[inline(never)]
fn plan_other(sites: &Sites, request: &Request<'_>, route: Route<'_>, is_stopping: bool) -> Option<Plan> {
    if let Route::Challenge(_, challenge) = route {
        return Some(plan::challenge(challenge));
    }
    let (_, current) = sites.current(route.site());
    plan_health(sites, request, is_stopping).or_else(|| plan::other_host(request, current, route))
}

/// Replaces the plan for a path at which the site has nothing, if an earlier image, which then replaces `image`, has something there.
#[cold]
#[inline(never)]
fn plan_retained(
    sites: &mut Sites,
    request: &Request<'_>,
    site: SiteId,
    options: PlanOptions,
    image: &mut ImageId,
    planned: &mut Result<Plan, NotResident>,
) {
    if sites.use_earlier(site)
        && let Some(instead) = retained_assets::plan(request, sites, site, options, image).transpose()
    {
        *planned = instead;
    }
}

/// Plans the response to a health check. `None`: the request is none.
#[cold]
fn plan_health(sites: &Sites, request: &Request<'_>, is_stopping: bool) -> Option<Plan> {
    plan::health(request, sites.health_path()?, is_stopping)
}
