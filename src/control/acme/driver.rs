//! Carries out what the machine of ACME decides: sends orders to the helper, checks its answers, stores and publishes what it brings.
//!
//! It owns files and shared memory. The driver of the supervisor owns the helper, and does what is left: [`AcmeOutput`].

use super::{
    certificate::Certificate,
    machine::AcmeMachine,
    message::{ChallengeAnswer, FailureKind, FromNet, OrderFailure, ToNet},
    store::{AcmeStore, Stored},
    vocabulary::{AcmeAction, AcmeEvent, AcmeNotice, AcmeTime, JobId, NameSetId, NameSetPlan, NameSetStatus},
};
use crate::{
    base::{
        acme_config::AcmeConfig,
        error::{UserError, reason},
    },
    control::metrics::CertificateMetrics,
    data::acme_table::{AcmeTable, CERTIFICATE_COUNT_MAX},
};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::Read,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tarpon_conn::Tick;
use tarpon_site::Printable;

/// What a configuration says of certificates, with what was opened for it.
#[derive(Debug)]
pub(crate) struct AcmeService {
    pub(crate) config: AcmeConfig,
    /// The roots that certify the directory, in PEM.
    pub(crate) roots: Option<Vec<u8>>,
    /// The names of each certificate.
    pub(crate) sets: Vec<Vec<String>>,
    store: AcmeStore,
}

/// The certificates of a service.
#[derive(Debug)]
pub(crate) struct AcmeDriver {
    machine: AcmeMachine,
    table: Arc<AcmeTable>,
    /// Of the generation that serves.
    served: Option<ServedAcme>,
    /// The places of the sets in the table. A set keeps its place as long as a configuration names it.
    places: BTreeMap<Vec<String>, usize>,
    certificates: BTreeMap<Vec<String>, Certificate>,
    job: Option<(JobId, Vec<String>)>,
    states: Vec<NameSetStatus>,
}

/// What the orders of a generation need.
#[derive(Debug)]
struct ServedAcme {
    directory: String,
    sets: Vec<Vec<String>>,
    store: AcmeStore,
    account: Option<String>,
}

/// What the driver of the supervisor does.
#[derive(Debug)]
pub(crate) enum AcmeOutput {
    /// Send the helper a message.
    Send(Box<ToNet>),
    /// Kill the helper.
    KillHelper,
    /// Tell the user.
    Emit(AcmeNotice),
}

/// Bytes of a file with roots, at most: the roots of all browsers have a quarter of it.
const ROOTS_LEN_MAX: u64 = 1 << 20;

impl AcmeService {
    /// Opens what a configuration names. `None`: it names no certificates.
    ///
    /// # Errors
    /// The roots cannot be read, or the state directory cannot be used.
    pub(crate) fn open(
        config: &AcmeConfig,
        sets: Vec<Vec<String>>,
        state: &Path,
    ) -> Result<Option<AcmeService>, UserError> {
        if sets.is_empty() {
            return Ok(None);
        }
        if sets.len() > CERTIFICATE_COUNT_MAX {
            return Err(UserError::new(
                "cannot obtain certificates",
                format_args!("{} sites have names, and at most {CERTIFICATE_COUNT_MAX} may", sets.len()),
                "give sites that share files one site with several names",
            ));
        }
        let read = |path: &Path| {
            let mut roots = Vec::new();
            File::open(path)?.take(ROOTS_LEN_MAX).read_to_end(&mut roots)?;
            Ok(roots)
        };
        let roots = config.root_file.as_deref().map(|path| {
            read(path).map_err(|error: std::io::Error| {
                UserError::new(
                    format_args!("cannot read {}", path.printable()),
                    reason(&error),
                    "name a file in PEM with --acme-ca, or leave it out to trust the roots of the system",
                )
            })
        });
        let roots = roots.transpose()?;
        let store = AcmeStore::open(state, &config.directory)?;
        Ok(Some(AcmeService { config: config.clone(), roots, sets, store }))
    }
}

impl AcmeDriver {
    /// Returns a driver without certificates.
    ///
    /// # Errors
    /// The system is out of memory.
    pub(crate) fn new(now: AcmeTime) -> std::io::Result<AcmeDriver> {
        use std::hash::{BuildHasher, Hasher};
        let seed = std::hash::RandomState::new().build_hasher().finish();
        Ok(AcmeDriver {
            machine: AcmeMachine::new(now, seed),
            table: Arc::new(AcmeTable::new()?),
            served: None,
            places: BTreeMap::new(),
            certificates: BTreeMap::new(),
            job: None,
            states: Vec::new(),
        })
    }

    /// Returns the memory that the servers read.
    pub(crate) fn table(&self) -> &Arc<AcmeTable> {
        &self.table
    }

    /// Reads the stored certificates of a configuration, and publishes them: its server is about to start.
    pub(crate) fn load(&mut self, service: &AcmeService, outputs: &mut Vec<AcmeOutput>) {
        for names in &service.sets {
            if !self.places.contains_key(names) {
                let is_free = |place: &usize| !self.places.values().any(|taken| taken == place);
                let Some(place) = (0..CERTIFICATE_COUNT_MAX).find(is_free) else { continue };
                self.places.insert(names.clone(), place);
            }
            if self.certificates.contains_key(names) {
                continue;
            }
            match service.store.certificate(names) {
                Stored::Nothing => {}
                Stored::Found(certificate) => self.publish(names, certificate),
                Stored::Damaged(why) => outputs.push(AcmeOutput::Emit(AcmeNotice::Damaged(why))),
            }
        }
    }

    /// Serves a configuration from now on. `None`: it names no certificates.
    pub(crate) fn adopt(
        &mut self,
        now: AcmeTime,
        service: Option<&AcmeService>,
        outputs: &mut Vec<AcmeOutput>,
    ) {
        let sets = service.map_or_else(Vec::new, |service| service.sets.clone());
        self.served = service.map(|service| {
            let account = match service.store.account(&service.config.directory) {
                Stored::Found(account) => Some(account),
                Stored::Nothing => None,
                Stored::Damaged(why) => {
                    outputs.push(AcmeOutput::Emit(AcmeNotice::Damaged(why)));
                    None
                }
            };
            ServedAcme {
                directory: service.config.directory.clone(),
                sets: sets.clone(),
                store: service.store.clone(),
                account,
            }
        });
        let plan = |names: &Vec<String>| NameSetPlan {
            names: names.clone(),
            stored: self.certificates.get(names).map(Certificate::validity),
        };
        let plans = sets.iter().map(plan).collect();
        self.certificates.retain(|names, _| sets.contains(names));
        self.places.retain(|names, place| {
            let is_used = sets.contains(names);
            if !is_used {
                self.table.remove(*place);
            }
            is_used
        });
        self.handle(now, AcmeEvent::Configured(plans), outputs);
    }

    /// Orders no more certificates. Those that there are serve on.
    pub(crate) fn end(&mut self) {
        self.served = None;
        self.table.clear_challenges();
    }

    /// Returns when [`AcmeEvent::Timer`] is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        self.served.as_ref().and_then(|_| self.machine.deadline())
    }

    /// Handles an event, and all that follow from its actions.
    pub(crate) fn handle(&mut self, now: AcmeTime, event: AcmeEvent, outputs: &mut Vec<AcmeOutput>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            self.machine.handle(now, event, &mut actions);
            for action in actions {
                self.perform(action, outputs);
            }
        }
        self.publish_states(now);
    }

    fn perform(&mut self, action: AcmeAction, outputs: &mut Vec<AcmeOutput>) {
        match action {
            AcmeAction::Order(id, set) => {
                let Some((served, names)) = self.of_set(set) else { return };
                let message = ToNet::Order {
                    id,
                    names: names.clone(),
                    account: served.account.clone(),
                    replaced: self.certificates.get(&names).map(|replaced| replaced.chain_pem().to_owned()),
                };
                self.job = Some((id, names));
                outputs.push(AcmeOutput::Send(Box::new(message)));
            }
            AcmeAction::AskRenewal(id, set) => {
                let Some((served, names)) = self.of_set(set) else { return };
                let chain =
                    self.certificates.get(&names).map(|certificate| certificate.chain_pem().to_owned());
                let message = ToNet::AskRenewal {
                    id,
                    chain: chain.unwrap_or_default(),
                    account: served.account.clone(),
                };
                self.job = Some((id, names));
                outputs.push(AcmeOutput::Send(Box::new(message)));
            }
            AcmeAction::ClearChallenges => self.table.clear_challenges(),
            AcmeAction::ForgetAccount => {
                if let Some(served) = &mut self.served {
                    served.account = None;
                    served.store.forget_account();
                }
            }
            AcmeAction::KillHelper => outputs.push(AcmeOutput::KillHelper),
            AcmeAction::Emit(notice) => outputs.push(AcmeOutput::Emit(notice)),
        }
    }

    fn of_set(&self, NameSetId(number): NameSetId) -> Option<(&ServedAcme, Vec<String>)> {
        let served = self.served.as_ref()?;
        Some((served, served.sets.get(number)?.clone()))
    }

    /// Handles a message of the helper.
    ///
    /// # Errors
    /// What is wrong with it: no helper of ours sends this.
    pub(crate) fn receive(
        &mut self,
        now: AcmeTime,
        message: FromNet,
        outputs: &mut Vec<AcmeOutput>,
    ) -> Result<(), &'static str> {
        let names = self.job.as_ref().map(|(_, names)| names.clone()).unwrap_or_default();
        message.check(&names)?;
        let current = self.job.as_ref().map(|(id, _)| *id);
        let event = match message {
            FromNet::Account { credentials } => {
                let Some(served) = &mut self.served else { return Ok(()) };
                if !is_account_of(&credentials, &served.directory) {
                    return Err("an account of another directory");
                }
                if let Err(error) = served.store.set_account(&credentials) {
                    outputs.push(AcmeOutput::Emit(not_stored(&names, &error)));
                }
                served.account = Some(credentials);
                return Ok(());
            }
            FromNet::Present { id, name, challenge } => {
                if current != Some(id) {
                    return Ok(());
                }
                let has_room = match challenge {
                    ChallengeAnswer::Http { token, key_authorization } => {
                        self.table.add_http(&name, &token, &key_authorization)
                    }
                    ChallengeAnswer::TlsAlpn { certificate, key } => {
                        self.table.add_tls_alpn(&name, &certificate, &key)
                    }
                };
                if !has_room {
                    return Err("more challenges than an order has");
                }
                outputs.push(AcmeOutput::Send(Box::new(ToNet::Presented { id })));
                return Ok(());
            }
            FromNet::Issued { id, chain, key } if current == Some(id) => {
                match Certificate::from_pem(&chain, &key, &names) {
                    Err(error) => {
                        AcmeEvent::OrderFailed(id, OrderFailure::new(FailureKind::Malformed, error))
                    }
                    Ok(certificate) => {
                        let store = self.served.as_ref().map(|served| &served.store);
                        if let Some(Err(error)) =
                            store.map(|store| store.set_certificate(&names, &certificate))
                        {
                            outputs.push(AcmeOutput::Emit(not_stored(&names, &error)));
                        }
                        let validity = certificate.validity();
                        self.publish(&names, certificate);
                        AcmeEvent::Issued(id, validity)
                    }
                }
            }
            FromNet::Failed { id, failure } if current == Some(id) => {
                AcmeEvent::OrderFailed(id, failure.checked())
            }
            FromNet::Renewal { id, answer } if current == Some(id) => {
                let answer = answer.map(|(window, wait_s)| (window, Duration::from_secs(wait_s)));
                AcmeEvent::RenewalAnswered(id, answer)
            }
            // Of a job that was given up.
            FromNet::Issued { .. } | FromNet::Failed { .. } | FromNet::Renewal { .. } => return Ok(()),
        };
        self.job = None;
        self.handle(now, event, outputs);
        Ok(())
    }

    fn publish(&mut self, names: &[String], certificate: Certificate) {
        if let Some(place) = self.places.get(names) {
            self.table.set_certificate(*place, certificate.chain_pem(), certificate.key_pem());
        }
        self.certificates.insert(names.to_vec(), certificate);
    }

    /// Writes what `tarpon status` and the metrics say.
    fn publish_states(&mut self, now: AcmeTime) {
        let states = self.machine.status();
        if states == self.states {
            return;
        }
        for state in &states {
            let Some(place) = self.places.get(&state.names) else { continue };
            let metrics = CertificateMetrics {
                names: state.names.clone(),
                not_after_unix_s: state.validity.map(|validity| validity.not_after_s),
                renewal_unix_s: state.renew_at_s,
                failures: state.failure_count.into(),
                failure: state.failure.as_ref().map(OrderFailure::to_string),
                retry_unix_s: state.retry_delay.map(|delay| now.unix_s + delay.as_secs()),
            };
            self.table.set_state(*place, &metrics.shortened());
        }
        self.states = states;
    }
}

/// Returns whether credentials belong to a directory.
fn is_account_of(credentials: &str, directory: &str) -> bool {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(credentials);
    parsed.is_ok_and(|account| account.get("directory").and_then(|url| url.as_str()) == Some(directory))
}

fn not_stored(names: &[String], error: &std::io::Error) -> AcmeNotice {
    AcmeNotice::NotStored { names: names.join(", "), why: reason(error) }
}
