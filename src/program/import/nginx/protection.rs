//! Directives that ask clients for a password, or another server for permission.
//!
//! ```text
//! auth_basic "Staff"; auth_basic_user_file users;   users of a file that tarpon reads
//! auth_basic off;                                   all clients, although a block around asks for a password
//! auth_request, auth_jwt, …                         closed: tarpon has no counterpart
//! ```

use super::http::HttpContext;
use crate::program::import::{
    plan::{Given, PlannedOption},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
    users::{PlannedUsers, RouteUsers, UsersRefused},
};

/// What a block asks of clients, but for their addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct NginxProtection {
    /// `auth_request`.
    permission: Option<DirectiveOrigin>,
    /// `auth_jwt` and others.
    token: Option<DirectiveOrigin>,
    /// `auth_basic`.
    realm: Option<Given>,
    users_file: Option<Given>,
    satisfies_any: Option<DirectiveOrigin>,
    /// Whether a directive of this block has a part in it.
    is_own: bool,
    /// The last directive of this block that asks for less than the block around it.
    opened_by: Option<DirectiveOrigin>,
}

impl NginxProtection {
    /// Returns the protection of an inner block.
    pub(super) fn inner(&self) -> NginxProtection {
        NginxProtection { is_own: false, opened_by: None, ..self.clone() }
    }

    /// Returns whether clients need more than an address.
    pub(super) fn is_closed(&self) -> bool {
        self.permission.is_some() || self.token.is_some() || self.realm.is_some()
    }

    /// Returns whether the block only has what it inherits.
    pub(super) fn is_inherited(&self) -> bool {
        !self.is_own
    }

    /// Returns the directive that opens the block, if one does.
    pub(super) fn opened_by(&self) -> Option<DirectiveOrigin> {
        self.opened_by.clone().filter(|_| !self.is_closed())
    }

    /// Returns whether a directive asks clients for something.
    pub(super) fn asks(directive: &SourceDirective) -> bool {
        let asking = ["auth_basic", "auth_request", "auth_jwt", "auth_oidc"];
        asking.contains(&&*directive.name) && directive.arg(0) != "off"
    }

    /// Reads a directive. Returns whether it is one of these.
    pub(super) fn read(&mut self, directive: &SourceDirective) -> bool {
        let origin = directive.origin();
        let value = directive.arg(0);
        let is_off = value == "off";
        match &*directive.name {
            "auth_basic" => self.realm = (!is_off).then(|| Given::new(value, &origin)),
            "auth_basic_user_file" => self.users_file = Some(Given::new(value, &origin)),
            "auth_request" => self.permission = (!is_off).then(|| origin.clone()),
            "auth_jwt" | "auth_oidc" => self.token = (!is_off).then(|| origin.clone()),
            "secure_link" => self.token = Some(origin.clone()),
            "satisfy" => self.satisfies_any = (value == "any").then(|| origin.clone()),
            "auth_request_set" | "auth_jwt_key_file" | "secure_link_md5" | "secure_link_secret" => {
                return true;
            }
            _ => return false,
        }
        self.is_own = true;
        if is_off {
            self.opened_by = Some(origin);
        }
        true
    }

    /// Reports directives of a block without effect: nothing there asks for what they set.
    pub(super) fn report_unused(&self, directives: &[SourceDirective], report: &mut ImportReport) {
        let unused = ["auth_basic_user_file", "auth_request_set", "auth_jwt_key_file", "secure_link_md5"];
        if self.is_closed() {
            return;
        }
        for directive in directives.iter().filter(|directive| unused.contains(&&*directive.name)) {
            report.not_needed(&directive.origin(), "nothing here asks for it");
        }
        for directive in directives.iter().filter(|directive| directive.name == "satisfy") {
            report.not_needed(&directive.origin(), "addresses alone decide");
        }
    }

    /// Returns the clients that may read the paths of the block. `addresses`: `allow` and `deny` that count there; `literal` replaces
    /// variables of a text.
    pub(super) fn users(
        &self,
        addresses: Vec<PlannedOption>,
        literal: impl Fn(&str) -> Option<String>,
        context: &HttpContext,
        report: &mut ImportReport,
    ) -> RouteUsers {
        if let Some(origin) = self.permission.as_ref().or(self.token.as_ref()) {
            report_closed(origin, report);
            return RouteUsers::Nobody;
        }
        let Some(realm) = &self.realm else { return RouteUsers::Anyone };
        let mut refuse = |origin: &DirectiveOrigin, why: String, hint: String| {
            report.left_out(
                origin,
                why,
                format_args!("until then the paths are closed by deny = [\"all\"]: {hint}"),
            );
            RouteUsers::Nobody
        };
        if let Some(origin) = self.satisfies_any.as_ref().filter(|_| !addresses.is_empty()) {
            let hint = "write a [[site.limit]] with users-file for all clients, or with `allow` for some (docs/passwords.md)";
            return refuse(
                origin,
                "in tarpon clients need an address and a password".to_owned(),
                hint.to_owned(),
            );
        }
        let Some(file) = &self.users_file else {
            let hint = "write users-file in its place (docs/passwords.md)";
            return refuse(&realm.origin, "it has no auth_basic_user_file".to_owned(), hint.to_owned());
        };
        let Some(name) = literal(&file.value) else {
            let hint = "write users-file in its place, with the name of a file (docs/passwords.md)";
            return refuse(
                &file.origin,
                "the name of the file depends on a variable".to_owned(),
                hint.to_owned(),
            );
        };
        let path = match context.users_files.check(&name) {
            Ok(path) => path,
            Err(UsersRefused { why, hint }) => return refuse(&file.origin, why, hint),
        };
        let text = literal(&realm.value);
        if text.is_none() {
            let how = "its text depends on a variable: browsers show the path in its place";
            report.differs(&realm.origin, how);
        }
        RouteUsers::Listed(Box::new(PlannedUsers {
            origin: realm.origin.clone(),
            users: Vec::new(),
            file: Some(Given::new(path, &file.origin)),
            realm: text.filter(|text| !text.is_empty()).map(|text| Given::new(text, &realm.origin)),
            addresses,
        }))
    }
}

/// Reports a directive that protects paths, which stay closed.
pub(super) fn report_closed(origin: &DirectiveOrigin, report: &mut ImportReport) {
    let hint = "until then the paths are closed by deny = [\"all\"]; docs/limits.md and docs/passwords.md tell which clients and users a [[site.limit]] can let in";
    report.left_out(origin, "the access control of these paths is not carried over", hint);
}
