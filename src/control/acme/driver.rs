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

/// The certificates of a configuration, with the files that they need.
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
        let former = self.served.as_ref().map(|served| served.directory.clone());
        if let (Some(former), Some(service)) = (former, service)
            && former != service.config.directory
        {
            self.change_directory(now, service, outputs);
        }
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

    /// Takes the certificates of another directory: those of the former one serve on, and are replaced at once.
    fn change_directory(&mut self, now: AcmeTime, service: &AcmeService, outputs: &mut Vec<AcmeOutput>) {
        self.handle(now, AcmeEvent::Configured(Vec::new()), outputs);
        for names in &service.sets {
            self.certificates.remove(names);
            match service.store.certificate(names) {
                Stored::Nothing => {}
                Stored::Found(certificate) => self.publish(names, certificate),
                Stored::Damaged(why) => outputs.push(AcmeOutput::Emit(AcmeNotice::Damaged(why))),
            }
        }
    }

    /// Orders no more certificates. The server keeps the present ones.
    pub(crate) fn end(&mut self) {
        self.served = None;
        self.table.clear_challenges();
    }

    /// Returns whether the helper works on a job.
    pub(crate) fn is_busy(&self) -> bool {
        self.machine.is_busy()
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
    /// The message violates the protocol, in this way: the helper is not trusted any more.
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
            // The job has ended before.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::acme::certificate::testing;

    /// Valid for the certificates that `rcgen` makes: from 1975 to 4096.
    const NOW: AcmeTime = AcmeTime { tick: Tick(0), unix_s: 1_800_000_000 };

    fn service(state: &Path, directory: &str) -> AcmeService {
        let config = AcmeConfig { directory: directory.to_owned(), ..AcmeConfig::default() };
        let sets = vec![vec!["a.example".to_owned()]];
        AcmeService::open(&config, sets, state).expect("a state directory").expect("names")
    }

    /// Returns the first message to the helper.
    fn sent(outputs: &[AcmeOutput]) -> Option<&ToNet> {
        outputs.iter().find_map(|output| match output {
            AcmeOutput::Send(message) => Some(&**message),
            _ => None,
        })
    }

    #[test]
    fn stored_certificate_serves_at_once_and_another_directory_replaces_it() {
        let state = tempfile::tempdir().unwrap();
        let staging = service(state.path(), "https://staging.example/");
        let names = &staging.sets[0];
        staging.store.set_certificate(names, &testing::certificate(names)).unwrap();
        let (mut driver, mut outputs) = (AcmeDriver::new(NOW).unwrap(), Vec::new());
        driver.load(&staging, &mut outputs);
        assert_eq!(driver.table().certificates().len(), 1, "before its server starts");
        driver.adopt(NOW, Some(&staging), &mut outputs);
        driver.handle(NOW, AcmeEvent::HelperStarted, &mut outputs);
        assert!(matches!(sent(&outputs), Some(ToNet::AskRenewal { .. })), "{outputs:?}");
        let production = service(state.path(), "https://production.example/");
        outputs.clear();
        driver.load(&production, &mut outputs);
        driver.adopt(NOW, Some(&production), &mut outputs);
        driver.handle(NOW, AcmeEvent::HelperStarted, &mut outputs);
        let Some(ToNet::Order { id, .. }) = sent(&outputs) else { panic!("{outputs:?}") };
        assert_eq!(driver.table().certificates().len(), 1, "until the new one is there");
        // It arrives, is stored and served.
        let (id, issued) = (*id, testing::certificate(names));
        let (chain, key) = (issued.chain_pem().to_owned(), issued.key_pem().to_owned());
        let served = format!("{key}{chain}");
        driver.receive(NOW, FromNet::Issued { id, chain, key }, &mut outputs).unwrap();
        assert_eq!(driver.table().certificates(), [(0, served)]);
        assert_eq!(production.store.certificate(names), Stored::Found(issued));
        // Without names there are none.
        driver.adopt(NOW, None, &mut outputs);
        assert_eq!((driver.table().certificates(), driver.deadline()), (vec![], None));
    }

    #[test]
    fn helper_that_sends_something_else_than_was_ordered_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let service = service(state.path(), "https://ca.example/");
        let (mut driver, mut outputs) = (AcmeDriver::new(NOW).unwrap(), Vec::new());
        driver.load(&service, &mut outputs);
        driver.adopt(NOW, Some(&service), &mut outputs);
        driver.handle(NOW, AcmeEvent::HelperStarted, &mut outputs);
        let Some(ToNet::Order { id, .. }) = sent(&outputs) else { panic!("{outputs:?}") };
        let id = *id;
        let present = |id, name: &str| FromNet::Present {
            id,
            name: name.to_owned(),
            challenge: ChallengeAnswer::TlsAlpn { certificate: vec![1], key: vec![2] },
        };
        assert!(driver.receive(NOW, present(id, "b.example"), &mut outputs).is_err());
        let account = FromNet::Account { credentials: r#"{"directory":"https://b.example/"}"#.to_owned() };
        assert!(driver.receive(NOW, account, &mut outputs).is_err());
        assert!(
            driver.receive(NOW, present(JobId(id.0 + 1), "a.example"), &mut outputs).is_ok(),
            "of another job"
        );
        assert_eq!(driver.table().challenge_certificate("a.example"), None);
        assert!(driver.receive(NOW, present(id, "a.example"), &mut outputs).is_ok());
        assert!(driver.table().challenge_certificate("a.example").is_some());
        // A certificate without the name is a failed order, and removes the challenges.
        let other = testing::certificate(&["b.example".to_owned()]);
        let (chain, key) = (other.chain_pem().to_owned(), other.key_pem().to_owned());
        driver.receive(NOW, FromNet::Issued { id, chain, key }, &mut outputs).unwrap();
        assert_eq!(driver.table().challenge_certificate("a.example"), None);
        assert!(driver.table().certificates().is_empty());
        let states = driver.table().states();
        assert!(states[0].contains("its certificate lacks a name"), "{states:?}");
    }
}
