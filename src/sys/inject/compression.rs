//! No compression in the background: tests of other things see one version of each site.

use std::{env, sync::LazyLock};

/// Any value turns the compression off.
const VARIABLE: &str = "TARPON_COMPRESS";

/// Returns whether sites are compressed in the background.
pub(crate) fn compresses() -> bool {
    static COMPRESSES: LazyLock<bool> = LazyLock::new(|| env::var_os(VARIABLE).is_none());
    *COMPRESSES
}
