//! The platform whose format a site's rule files have.

/// The platform whose format a site's rule files have. It matters where the formats differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The format of Netlify.
    #[default]
    Netlify,
    /// The format of Cloudflare Pages.
    Cloudflare,
    /// The server ignores the files. It does not send them either.
    Off,
}

impl Dialect {
    /// Returns the format of rules that the configuration adds: that of Netlify unless another one is selected.
    pub(crate) fn of_rules(self) -> Dialect {
        if self == Dialect::Off { Dialect::Netlify } else { self }
    }
}
