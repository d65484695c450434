//! How a site answers, as far as its files do not say: what the caller decides for all of it.

/// What the caller decides for all of a site. The default decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What is not there, and is not the path of an asset, is answered with `/index.html`, which knows what to make of it.
    pub spa: bool,
    /// `about.html` is at `/about`, and `index.html` at its directory; their names lead there.
    pub clean_urls: bool,
    /// Whether the addresses of pages end in a slash.
    pub trailing_slash: TrailingSlash,
}

/// Whether the address of a page ends in a slash. The other one leads there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrailingSlash {
    /// That of a directory does, and that of a file does not.
    #[default]
    Auto,
    /// All do.
    Always,
    /// None does, but the root.
    Never,
}
