//! The process `tarpon-cgi`: becomes the user of the programs, and keeps no other rights.

use super::{helper::CgiHelper, service::CgiService, stats::CgiStats};
use crate::{
    control::{process::channel::Channel, sandbox},
    sys::process::hide_memory,
};
use std::os::fd::AsFd;

/// What the process starts with.
#[derive(Clone, Copy)]
pub(crate) struct CgiStart<'a> {
    pub(crate) service: &'a CgiService,
    pub(crate) stats: &'a CgiStats,
}

/// Runs until the supervisor exits or closes the channel. Returns an exit status.
pub(crate) fn run(CgiStart { service, stats }: CgiStart<'_>, channel: Channel) -> i32 {
    let confined = service.privileges.assume().map_err(|error| error.to_string()).and_then(|()| {
        // Programs run as the same user: they must not trace this process, nor open its descriptors through /proc.
        hide_memory().map_err(|error| error.to_string())?;
        sandbox::confine_cgi(&service.privileges).map_err(|error| error.to_string())
    });
    let rules = match confined {
        Ok(rules) => rules,
        Err(why) => {
            eprintln!("tarpon: the process tarpon-cgi cannot continue: {why}");
            return 1;
        }
    };
    let mut helper = CgiHelper::new(&service.config, &service.mounts, &service.distrust, stats, rules);
    helper.run(&service.helper, channel.as_fd());
    0
}
