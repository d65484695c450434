//! The limits of a site, by prefix.
//!
//! ```text
//! routes ─ add, close, protect ─▶ all that directives want for a prefix ─ finish ─▶ one [[site.limit]] for each
//!                                                                            └─ closed wherever they contradict each other
//! ```
//!
//! Blocks of another server do not inherit from the blocks beside them. A section of tarpon inherits from that of the next shorter path, so
//! [`ImportedLimits::keep_open`] lets clients in again. Nothing is opened that a directive has closed.

use super::{
    draft::DraftSection,
    plan::{PlannedOption, RoutePlan},
    report::ImportReport,
    source::DirectiveOrigin,
    users::PlannedUsers,
};
use std::collections::BTreeMap;

/// The limits of a site, by prefix.
#[derive(Default)]
pub(super) struct ImportedLimits {
    prefixes: BTreeMap<String, PrefixLimits>,
}

/// What directives want for the paths with a prefix.
struct PrefixLimits {
    section: DraftSection,
    /// `allow` and `deny`.
    addresses: Vec<PlannedOption>,
    /// Whether a directive closes the paths that has nothing to do with users.
    is_closed: bool,
    users: Vec<PlannedUsers>,
    /// Whether users must pass the directives of shorter paths, too.
    is_layered: bool,
    /// Whether all directives are for the path itself, and none for those below.
    is_exact: bool,
}

const ADDRESSES: &[&str] = &["allow", "deny"];
const USERS: &[&str] = &["users", "users-file", "passwords"];

impl ImportedLimits {
    fn entry(&mut self, prefix: &str, is_exact: bool, origin: &DirectiveOrigin) -> &mut PrefixLimits {
        let new = || PrefixLimits {
            section: DraftSection::new("site.limit", origin).with("path", prefix, origin),
            addresses: Vec::new(),
            is_closed: false,
            users: Vec::new(),
            is_layered: false,
            is_exact: true,
        };
        let limits = self.prefixes.entry(prefix.to_owned()).or_insert_with(new);
        limits.is_exact &= is_exact;
        limits
    }

    /// Denies every client.
    pub(super) fn close(&mut self, prefix: &str, is_exact: bool, origin: &DirectiveOrigin) {
        self.entry(prefix, is_exact, origin).is_closed = true;
    }

    /// Adds addresses and rates.
    pub(super) fn add(
        &mut self,
        prefix: &str,
        is_exact: bool,
        options: &[PlannedOption],
        origin: &DirectiveOrigin,
    ) {
        let limits = self.entry(prefix, is_exact, origin);
        for option in options {
            match (option.name, &*option.given.value) {
                ("deny", "all") => limits.is_closed = true,
                ("allow" | "deny", _) => limits.addresses.push(option.clone()),
                (name, value) => limits.section.set(name, value, &option.given.origin),
            }
        }
    }

    /// Lets users in, and no other client.
    pub(super) fn protect(&mut self, prefix: &str, is_exact: bool, users: &PlannedUsers, route: &RoutePlan) {
        self.add(prefix, is_exact, &route.limits, &route.origin);
        let limits = self.entry(prefix, is_exact, &route.origin);
        limits.is_layered |= route.is_layered;
        limits.users.push(users.clone());
    }

    /// Chooses the options of each section.
    pub(super) fn finish(&mut self, report: &mut ImportReport) {
        // Those of shorter paths come first.
        let prefixes: Vec<String> = self.prefixes.keys().cloned().collect();
        for prefix in prefixes {
            let restricts = self.outer(&prefix, ADDRESSES).is_some_and(|outer| !allows_all(&outer.section));
            let outer_users = self.outer(&prefix, USERS).and_then(|outer| outer.users.first()).cloned();
            let Some(limits) = self.prefixes.get_mut(&prefix) else { continue };
            limits.finish(&prefix, restricts, outer_users.as_ref(), report);
        }
        // A section without a limit is none.
        self.prefixes.retain(|_, limits| limits.section.option_count() > 1);
    }

    /// Lets clients in although a section of a shorter path keeps them out: that comes from a block beside theirs. `addresses`,
    /// `passwords`: which of the two the block of these paths does not ask for.
    pub(super) fn keep_open(
        &mut self,
        prefix: &str,
        addresses: bool,
        passwords: bool,
        origin: &DirectiveOrigin,
    ) {
        let own = self.prefixes.get(prefix).map(|limits| &limits.section);
        let has = |names| own.is_some_and(|own| has_any(own, names));
        let closed = self.outer(prefix, ADDRESSES).is_some_and(|outer| !allows_all(&outer.section));
        let asks = self.outer(prefix, USERS).is_some_and(|outer| !has_any(&outer.section, &["passwords"]));
        let (allows, asks_nothing) =
            (addresses && closed && !has(ADDRESSES), passwords && asks && !has(USERS));
        if allows {
            self.entry(prefix, false, origin).section.set("allow", "all", origin);
        }
        if asks_nothing {
            self.entry(prefix, false, origin).section.set("passwords", "off", origin);
        }
    }

    /// Returns whether users in the section of a prefix have been carried over.
    pub(super) fn has_users(&self, prefix: &str) -> bool {
        self.prefixes.get(prefix).is_some_and(|limits| has_any(&limits.section, USERS))
    }

    /// Returns whether clients without a password and from all addresses may have a path.
    pub(super) fn is_open(&self, path: &str) -> bool {
        self.effective(path, ADDRESSES).is_none_or(allows_all)
            && self.effective(path, USERS).is_none_or(|section| has_any(section, &["passwords"]))
    }

    /// Returns which clients may have a path, to compare it with others.
    pub(super) fn protection(&self, path: &str) -> Vec<Vec<String>> {
        let values = |section: Option<&'_ DraftSection>, name: &str| -> Vec<String> {
            section.into_iter().flat_map(|section| section.values(name)).map(str::to_owned).collect()
        };
        let (addresses, users) = (self.effective(path, ADDRESSES), self.effective(path, USERS));
        let of_addresses = ADDRESSES.iter().map(|name| values(addresses, name));
        of_addresses.chain(USERS.iter().map(|name| values(users, name))).collect()
    }

    /// Returns the section that counts for a path among those that have one of these options.
    fn effective(&self, path: &str, names: &[&str]) -> Option<&DraftSection> {
        let own = self.prefixes.get(path).filter(|limits| has_any(&limits.section, names));
        own.or_else(|| self.outer(path, names)).map(|limits| &limits.section)
    }

    /// Returns the sections, without those that only repeat what they inherit.
    pub(super) fn sections(mut self) -> Vec<DraftSection> {
        let repeats = |prefix: &String, limits: &PrefixLimits| {
            let own = users_of(&limits.section);
            let outer = self.outer(prefix, USERS).map(|outer| users_of(&outer.section));
            !own.is_empty() && outer.is_some_and(|outer| outer == own) && limits.has_users_alone()
        };
        let repeated: Vec<String> = self
            .prefixes
            .iter()
            .filter(|(prefix, limits)| repeats(prefix, limits))
            .map(|(prefix, _)| prefix.clone())
            .collect();
        repeated.iter().for_each(|prefix| drop(self.prefixes.remove(prefix)));
        self.prefixes.into_values().map(|limits| limits.section).collect()
    }

    /// Returns the section of the longest shorter prefix that has one of these options.
    fn outer(&self, prefix: &str, names: &[&str]) -> Option<&PrefixLimits> {
        let is_outer = |outer: &str| {
            let rest = prefix.strip_prefix(outer.trim_end_matches('/'));
            outer != prefix && rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let outer = self.prefixes.iter().rev();
        outer
            .filter(|(outer, _)| is_outer(outer))
            .map(|(_, limits)| limits)
            .find(|limits| has_any(&limits.section, names))
    }
}

impl PrefixLimits {
    /// Chooses the options of the section. `restricts`: whether an outer section keeps addresses out.
    fn finish(
        &mut self,
        prefix: &str,
        restricts: bool,
        outer_users: Option<&PlannedUsers>,
        report: &mut ImportReport,
    ) {
        let users = self.users.first().cloned();
        if let Some(users) = &users {
            let is_same = |other: &PlannedUsers| users.is_same(other) && users.addresses == other.addresses;
            // Directives of a shorter path would count for the same request, and those of one path for others below it.
            let contradicts =
                (self.is_layered || self.is_exact) && outer_users.is_some_and(|outer| !outer.is_same(users));
            let has_addresses = !users.addresses.is_empty() || self.is_layered && !self.addresses.is_empty();
            let opens = (self.is_layered || self.is_exact) && restricts && has_addresses;
            if !self.users.iter().all(is_same) || contradicts || opens {
                let why = format!("another directive has other users or addresses for paths of {prefix}");
                report.left_out(&users.origin, why, STAYS_CLOSED);
                self.is_closed = true;
            }
        }
        if self.is_closed {
            self.addresses.clear();
            return self.section.close();
        }
        if let Some(users) = &users
            && !self.is_layered
        {
            // Those of nginx are complete, and all others come from blocks around.
            self.addresses.clone_from(&users.addresses);
        }
        if self.is_exact
            && restricts
            && users.is_none()
            && let Some(first) = self.addresses.first()
        {
            report.left_out(
                &first.given.origin,
                format_args!("paths below {prefix} would be open, too"),
                "write a [[site.limit]] with `allow`, which counts for paths below, too",
            );
            self.addresses.clear();
        }
        for PlannedOption { name, given } in &self.addresses {
            self.section.set(name, &*given.value, &given.origin);
        }
        let Some(users) = users else { return };
        users.users.iter().for_each(|given| self.section.set("users", &*given.value, &given.origin));
        for (name, given) in [("users-file", &users.file), ("realm", &users.realm)] {
            if let Some(given) = given {
                self.section.set(name, &*given.value, &given.origin);
            }
        }
    }

    fn has_users_alone(&self) -> bool {
        let own = ["users", "users-file", "realm"].iter().filter(|name| has_any(&self.section, &[name]));
        self.section.option_count() == 1 + own.count()
    }
}

const STAYS_CLOSED: &str = "the paths are closed by deny = [\"all\"]: write the users that may read them in its place (docs/passwords.md)";

fn has_any(section: &DraftSection, names: &[&str]) -> bool {
    names.iter().any(|name| section.values(name).next().is_some())
}

fn allows_all(section: &DraftSection) -> bool {
    section.values("deny").next().is_none() && section.values("allow").eq(["all"])
}

/// Returns the users of a section, and its text.
fn users_of(section: &DraftSection) -> Vec<&str> {
    ["users", "users-file", "realm"].iter().flat_map(|name| section.values(name)).collect()
}
