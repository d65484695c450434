//! `[[site.location]]` and `[[site.error-page]]`: options for parts of a site, and its own error pages.

use super::{Config, ConfigSection, Opt, ValueKind, option::OPT, rules::text, site::open_path};
use crate::{ErrorPage, PathEntry};

pub(super) const LOCATION: ConfigSection = ConfigSection {
    name: "site.location",
    count: 0..=usize::MAX,
    help: "Options for some paths of the site above it; the last section that sets an option counts",
    key: None,
    options: &[
        Opt {
            name: "path",
            value_name: "PATTERN",
            kind: ValueKind::Text(open_path, |config, path| config.path().path = text(path)),
            required: true,
            example: "/downloads/*",
            invalid: &["", "downloads/*"],
            help: "Set options for these paths",
            details: "Placeholders and * work as in _headers.",
            ..OPT
        },
        Opt {
            name: "listings",
            kind: ValueKind::Flag(|config, on| config.path().listings = Some(on)),
            default: super::OptionDefault::Described("the value of the site"),
            help: "Answer directories without a page with a list of their contents",
            details: "As listings of [[site]].",
            ..OPT
        },
        Opt {
            name: "cache",
            value_name: "VALUE",
            kind: ValueKind::Text(cache, |config, value| config.path().cache = Some(text(value))),
            default: super::OptionDefault::Described("by the file name"),
            example: "max-age=3600",
            invalid: &["", " "],
            help: "Send this value of Cache-Control",
            details: "As an entry of [[site.header]] behind all others; _headers can replace it.",
            ..OPT
        },
        Opt {
            name: "access-log",
            value_name: "STATE",
            kind: ValueKind::Choice(&[
                ("on", |config| config.path().access_log = Some(true)),
                ("off", |config| config.path().access_log = Some(false)),
            ]),
            default: super::OptionDefault::Described("on, if the site has an access log"),
            example: "off",
            help: "Write requests for these paths to the access log of the site",
            details: "The value off leaves out every request for them, missing files and other errors included; metrics still count it. The value on is for a part of a path that is off.",
            ..OPT
        },
    ],
    add: |config| config.site().source.policy.rules.paths.push(PathEntry::default()),
};

pub(super) const ERROR_PAGE: ConfigSection = ConfigSection {
    name: "site.error-page",
    count: 0..=usize::MAX,
    help: "A page of the site above it, for an error",
    key: None,
    options: &[
        Opt {
            name: "status",
            value_name: "STATUS",
            kind: ValueKind::Count(400..=599, "", |config, status| {
                config.error_page().status = u16::try_from(status).expect("the range ends at 599");
            }),
            required: true,
            example: "404",
            help: "Answer errors of this status",
            details: "One that the server itself sends: 400, 401, 403 to 405, 408, 411 to 414, 416, 417, 421, 429, 431 or 500 to 505.",
            ..OPT
        },
        Opt {
            name: "path",
            value_name: "PATH",
            kind: ValueKind::Text(open_path, |config, path| config.error_page().path = text(path)),
            required: true,
            example: "/missing.html",
            invalid: &["", "missing.html"],
            help: "Send the HTML file at this path",
            details: "With 404 it takes the place of /404.html; a 404.html in a directory below comes first. A page for another status has at most 64 KiB.",
            ..OPT
        },
    ],
    add: |config| config.site().source.policy.rules.error_pages.push(ErrorPage::default()),
};

impl Config {
    /// Returns the options of paths that were added last.
    fn path(&mut self) -> &mut PathEntry {
        self.site().source.policy.rules.paths.last_mut().expect("add() pushed an entry")
    }

    /// Returns the error page that was added last.
    fn error_page(&mut self) -> &mut ErrorPage {
        self.site().source.policy.rules.error_pages.last_mut().expect("add() pushed a page")
    }
}

/// Accepts a value of Cache-Control.
fn cache(value: &str) -> Result<String, String> {
    match value.trim().is_empty() || value.contains('\0') {
        true => Err("expected a value of Cache-Control".to_owned()),
        false => Ok(value.to_owned()),
    }
}
