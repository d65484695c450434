//! Selects the users whose directories are served below `/~name/`.
//!
//! ```text
//! users of the system ─┬─ root ──────────────────────────────────────▶ never
//!                      ├─ UID below 1000, or `nobody`, not listed ───▶ no
//!                      ├─ in `except`, or `only` lists others ───────▶ no
//!                      └─ has a home ────────────────────────────────▶ HOME/public_html, if it exists
//! ```
//!
//! Works like mod_userdir of Apache and lighttpd, except that the site builder looks users up once, not on each request.

use crate::{
    base::error::{UserError, reason},
    base::site_config::{UserConfig, UserDirectories},
    sys::user::User,
};
use std::{collections::BTreeMap, path::Path};
use tarpon_pack::UserDirectory;

impl UserConfig {
    /// Returns the directories of all selected users.
    ///
    /// # Errors
    /// A lookup in the user database fails.
    pub(crate) fn directories(&self) -> Result<UserDirectories, UserError> {
        let Some(dir) = &self.dir else { return Ok(UserDirectories::default()) };
        let users = match &self.only[..] {
            [] => User::all(),
            // Looked up by name, as not every database can list all its users.
            names => named(names)?,
        };
        let directories: BTreeMap<_, _> = users.iter().filter_map(|user| self.directory(dir, user)).collect();
        let directories = directories.into_values().collect();
        Ok(UserDirectories { directories, user_database: Some(DATABASE.into()) })
    }

    fn directory(&self, dir: &Path, user: &User) -> Option<(String, UserDirectory)> {
        let (name, home) = (user.name(), user.home());
        let is_person = user.uid() >= UID_MIN && user.uid() != NOBODY;
        let is_wanted = self.only.contains(&name) || self.only.is_empty() && is_person;
        let is_served = is_wanted && !user.is_root() && !self.except.contains(&name);
        let has_home = home.is_absolute() && home.parent().is_some();
        let is_segment = !name.is_empty() && !name.contains('/');
        let found = is_served && has_home && is_segment;
        let directory = || UserDirectory { name: name.clone(), home: home.to_owned(), dir: dir.to_owned() };
        found.then(|| (name.clone(), directory()))
    }
}

fn named(names: &[String]) -> Result<Vec<User>, UserError> {
    let users = names.iter().map(|name| User::named(name)).collect::<Result<Vec<_>, _>>();
    let users = users.map_err(|error| {
        let hint = "see /etc/passwd and /etc/nsswitch.conf, or leave user-directories out";
        UserError::new("cannot look users up", reason(&error), hint)
    })?;
    Ok(users.into_iter().flatten().collect())
}

/// The smallest UID that is not a system account. login.defs(5), UID_MIN.
const UID_MIN: u32 = 1000;
/// The UID of `nobody`, by convention.
const NOBODY: u32 = 65_534;
/// The file with the local users of this host.
const DATABASE: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_users_have_directories_and_root_and_system_accounts_do_not() {
        let users = [
            ("root", 0, "/root"),
            ("www", 33, "/srv/www"),
            ("ann", 1000, "/home/ann"),
            ("bob", 1001, "/home/bob"),
            ("homeless", 1002, "/"),
            ("lost", 1003, ""),
            ("near", 1004, "home/near"),
            ("in/out", 1005, "/home/in"),
            ("nobody", 65_534, "/nonexistent"),
            ("far", 70_000, "/net/far"),
        ];
        type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
        #[rustfmt::skip]
        let cases: &[Case<'_>] = &[
            // what it shows       only               except    users with a directory
            ("all",                &[],               &[],      &["ann", "bob", "far"]),
            ("all but one",        &[],               &["bob"], &["ann", "far"]),
            ("only one",           &["bob"],          &[],      &["bob"]),
            ("a system account",   &["www", "ann"],   &[],      &["ann", "www"]),
            ("root never",         &["root"],         &[],      &[]),
            ("listed, no home",    &["lost", "near"], &[],      &[]),
            ("listed, excepted",   &["ann", "bob"],   &["ann"], &["bob"]),
        ];
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (name, only, except, want) in cases {
            let config = UserConfig { dir: Some("www".into()), only: texts(only), except: texts(except) };
            let found = users.iter().filter_map(|&(name, uid, home)| {
                config.directory(Path::new("www"), &User::of(name, uid, home))
            });
            let found: BTreeMap<_, _> = found.collect();
            assert_eq!(found.keys().collect::<Vec<_>>(), *want, "{name}");
        }
    }

    #[test]
    fn user_found_by_name_is_in_the_list_of_all_users() {
        let root = User::named("root").expect("users").expect("root");
        assert!(User::all().contains(&root));
    }
}
