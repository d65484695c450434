//! Joins servers that only redirect with those that they redirect to.
//!
//! ```text
//! server { listen 80; server_name a; return 301 https://$host$request_uri; }    redirect-to-https of the site a
//! server { server_name www.a; return 301 https://a$request_uri; }               redirect-hosts of the site a
//! server { listen 80 default_server; return 444; }                              refuse-unknown-hosts
//! ```

use super::server::{NginxServer, RedirectedHost, WholeHostRedirect};
use crate::program::import::{
    path::PathPattern,
    plan::{Given, ImportedSite, PlannedOption, RouteAction, RoutePlan, ServicePlan},
    report::ImportReport,
};

/// Returns the plan with all sites.
pub(super) fn merge(
    mut plan: ServicePlan,
    servers: Vec<NginxServer>,
    report: &mut ImportReport,
) -> ServicePlan {
    let mut redirecting = Vec::new();
    for mut server in servers {
        plan.listeners.append(&mut server.listeners);
        plan.server.append(&mut server.server);
        if server.redirect.is_some() || server.refused.is_some() {
            redirecting.push(server);
            continue;
        }
        for (host, redirect) in &server.conditional {
            conditional(&mut server.site, host, redirect, report);
        }
        plan.sites.push(server.site);
    }
    let has_sites = !plan.sites.is_empty();
    for server in redirecting {
        let mut left = Vec::new();
        for (host, redirect) in &server.conditional {
            if !redirect_names(
                &mut plan,
                &server.site,
                &[Given::new(host.as_str(), &redirect.origin)],
                redirect,
            ) {
                left.push(redirect.clone());
            }
        }
        for redirect in left {
            report.left_out(
                &redirect.origin,
                "no server answers where it redirects to",
                "write a [[site]] for that host",
            );
        }
        match (server.redirect.clone(), &server.refused) {
            (Some(redirect), _) => {
                let hosts = server.site.hosts.clone();
                if !redirect_names(&mut plan, &server.site, &hosts, &redirect) {
                    plan.sites.push(redirecting_site(server.site, &redirect));
                }
            }
            (None, Some(origin))
                if has_sites && (server.site.hosts.is_empty() || !server.conditional.is_empty()) =>
            {
                if server.site.hosts.is_empty()
                    && (server.site.default.is_some() || server.conditional.is_empty())
                {
                    plan.server.push(PlannedOption::new("refuse-unknown-hosts", "true", origin));
                    report.differs(origin, "requests to unknown hosts get 421");
                }
            }
            (None, Some(origin)) => {
                let mut site = server.site;
                let route = RoutePlan::new(origin, vec![PathPattern::All]).with_action(RouteAction::Closed);
                report.differs(origin, "the host answers 403");
                site.routes.insert(0, route);
                plan.sites.push(site);
            }
            (None, None) => {}
        }
    }
    if plan.server.iter().any(|option| option.name == "refuse-unknown-hosts") {
        plan.sites.iter_mut().for_each(|site| site.default = None);
    }
    plan
}

/// Adds a redirect of one host within the site that has it.
fn conditional(site: &mut ImportedSite, host: &str, redirect: &WholeHostRedirect, report: &mut ImportReport) {
    match &redirect.to {
        RedirectedHost::SameWithTls => site.redirect_to_https = Some(redirect.origin.clone()),
        RedirectedHost::Other { host: to, .. }
            if site.hosts.first().is_some_and(|first| {
                first.value == *to || site.hosts.iter().any(|host| host.value == *to)
            }) =>
        {
            move_first(&mut site.hosts, to);
            site.hosts.retain(|given| given.value != host);
            site.redirect_hosts.push(Given::new(host, &redirect.origin));
        }
        RedirectedHost::Other { host: to, .. } => {
            report.left_out(
                &redirect.origin,
                format_args!("{host} redirects to {to}, which is no host of the same server"),
                "write a [[site]] with a [[site.redirect]]",
            );
        }
    }
}

/// Adds a redirect to the sites that it leads to. Returns whether there are any.
fn redirect_names(
    plan: &mut ServicePlan,
    from: &ImportedSite,
    hosts: &[Given],
    redirect: &WholeHostRedirect,
) -> bool {
    let has_tls = |site: &ImportedSite| site.listen.iter().any(|given| given.value.starts_with("tls:"));
    match &redirect.to {
        RedirectedHost::SameWithTls => {
            let is_meant = |site: &ImportedSite| {
                has_tls(site)
                    && (hosts.is_empty()
                        || site.hosts.iter().any(|own| hosts.iter().any(|host| host.value == own.value)))
            };
            let mut found = false;
            for site in plan.sites.iter_mut().filter(|site| is_meant(site)) {
                found = true;
                site.redirect_to_https = Some(redirect.origin.clone());
                site.listen.extend(from.listen.iter().cloned());
                if let Some(default) = &from.default {
                    site.default.get_or_insert_with(|| default.clone());
                }
            }
            found
        }
        RedirectedHost::Other { scheme, host } => {
            let Some(site) =
                plan.sites.iter_mut().find(|site| site.hosts.iter().any(|own| own.value == *host))
            else {
                return false;
            };
            // A redirect to another scheme only works if the site has it.
            if *scheme == Some("https") && !has_tls(site) {
                return false;
            }
            move_first(&mut site.hosts, host);
            if *scheme == Some("https")
                && from.listen.iter().any(|given| !given.value.starts_with("tls:"))
                && from.hosts.iter().any(|own| own.value == *host)
            {
                site.redirect_to_https = Some(redirect.origin.clone());
            }
            for name in hosts.iter().filter(|name| name.value != *host) {
                site.redirect_hosts.push(name.clone());
            }
            site.listen.extend(from.listen.iter().cloned());
            true
        }
    }
}

/// Moves a host to the front: `redirect-hosts` lead to the first.
fn move_first(hosts: &mut Vec<Given>, host: &str) {
    if let Some(at) = hosts.iter().position(|own| own.value == host) {
        let given = hosts.remove(at);
        hosts.insert(0, given);
    }
}

/// Returns a site that redirects all paths.
fn redirecting_site(mut site: ImportedSite, redirect: &WholeHostRedirect) -> ImportedSite {
    let to = match &redirect.to {
        RedirectedHost::SameWithTls => {
            site.redirect_to_https = Some(redirect.origin.clone());
            return site;
        }
        RedirectedHost::Other { scheme, host } => format!("{}://{host}/:splat", scheme.unwrap_or("https")),
    };
    let route = RoutePlan::new(&redirect.origin, vec![PathPattern::All]);
    site.routes.push(route.with_action(RouteAction::Redirect { to, status: redirect.status }));
    site
}
