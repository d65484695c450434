//! `tarpon-net`: the process that speaks to the directory. It has the rights to look names up and to connect, and nothing else.
//!
//! ```text
//! supervisor ── Order ─▶ loop ─▶ AcmeClient ── HTTPS ─▶ directory
//!            ◀─ Present, Issued, Failed ┘    └─ add, remove ─▶ hook process: keeps the rights, runs the configured program
//! ```
//!
//! One thread, one job at a time. It keeps neither keys nor certificates: each order brings the account, and each answer what the supervisor
//! stores.
//!
//! | file | what |
//! |---|---|
//! | `client` | an order from account to certificate, with `instant-acme` |
//! | `https` | requests to the directory, with limits of time and length |
//! | `failure` | the errors of directory and network, as failures with a hint |
//! | `hook` | the process that runs the DNS hook |

pub(crate) mod client;
mod failure;
pub(crate) mod hook;
mod https;

use super::message::{FailureKind, FromNet, OrderFailure, ToNet};
use crate::{
    base::acme_config::AcmeConfig,
    control::{
        process::channel::{Channel, Receiver, Sender},
        sandbox::{self, Privileges},
    },
    sys::process::SingleThreaded,
};
use client::{AcmeClient, OrderRequest, Reporter};
use hook::HookProcess;
use https::HttpsClient;

/// What the process starts with.
#[derive(Clone, Copy)]
pub(crate) struct NetStart<'a> {
    pub(crate) config: &'a AcmeConfig,
    /// The roots that certify the directory, in PEM. `None`: those of the system.
    pub(crate) roots: Option<&'a [u8]>,
    /// All names that may be ordered, for the hook.
    pub(crate) names: &'a [Vec<String>],
    pub(crate) privileges: &'a Privileges,
}

/// Runs until the supervisor exits or kills it. Returns an exit status.
pub(crate) fn run(start: NetStart<'_>, channel: Channel) -> i32 {
    match serve(start, channel) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("tarpon: the process tarpon-net cannot continue: {why}");
            1
        }
    }
}

fn serve(start: NetStart<'_>, channel: Channel) -> Result<(), String> {
    let in_words = |error: std::io::Error| error.to_string();
    // Before the sandbox: the hook keeps the rights that the program was started with.
    let hook = match &start.config.dns_hook {
        Some(program) => {
            let single_threaded = SingleThreaded::new().map_err(in_words)?;
            Some(HookProcess::start(&single_threaded, program, start.names).map_err(in_words)?)
        }
        None => None,
    };
    let https = HttpsClient::new(start.roots)?;
    let ports = https::ports(&start.config.directory);
    start.privileges.assume().map_err(|error| error.to_string())?;
    sandbox::confine_net(start.privileges, &ports).map_err(in_words)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(in_words)?;
    let mut client = AcmeClient::new(start.config.clone(), https, hook);
    let Channel { sender, receiver } = channel;
    let mut supervisor = SupervisorLink { sender, receiver };
    while let Some(message) = supervisor.receive() {
        let answer = match message {
            ToNet::Order { id, names, account, replaced } => {
                let request = OrderRequest { id, names, account, replaced };
                match runtime.block_on(client.order(request, &mut supervisor)) {
                    Ok((chain, key)) => FromNet::Issued { id, chain, key },
                    Err(failure) => FromNet::Failed { id, failure },
                }
            }
            ToNet::AskRenewal { id, chain, account } => {
                FromNet::Renewal { id, answer: runtime.block_on(client.renewal(&chain, account.as_deref())) }
            }
            // Of an order that has failed meanwhile.
            ToNet::Presented { .. } => continue,
        };
        // Fails if the supervisor has exited.
        let _ = supervisor.sender.send(&answer);
    }
    Ok(())
}

/// The channel to the supervisor. It blocks: there is nothing else to do meanwhile.
struct SupervisorLink {
    sender: Sender,
    receiver: Receiver,
}

impl SupervisorLink {
    /// Returns the next message. `None`: the supervisor has exited.
    fn receive(&mut self) -> Option<ToNet> {
        self.receiver.receive().ok().flatten().map(|(message, _)| message)
    }
}

impl Reporter for SupervisorLink {
    fn account_made(&mut self, credentials: String) {
        let _ = self.sender.send(&FromNet::Account { credentials });
    }

    fn present(&mut self, message: FromNet) -> Result<(), OrderFailure> {
        let gone = || OrderFailure::new(FailureKind::Interrupted, "the supervisor has exited");
        let FromNet::Present { id: wanted, .. } = &message else { return Ok(()) };
        self.sender.send(&message).map_err(|_| gone())?;
        loop {
            match self.receive().ok_or_else(gone)? {
                ToNet::Presented { id } if id == *wanted => return Ok(()),
                _ => {}
            }
        }
    }
}
