//! Carries out what the machine of ACME decides: sends orders to the helper, checks its answers, stores and publishes what it brings.
//!
//! It owns files and shared memory. The driver of the supervisor owns the helper, and does what is left: [`AcmeOutput`].

use super::{
    certificate::Certificate,
    machine::AcmeMachine,
    message::{ChallengeAnswer, FailureKind, FromNet, OrderFailure, ToNet},
    store::{AcmeStore, Stored},
    vocabulary::{AcmeAction, AcmeEvent, AcmeNotice, AcmeTime, NameSetId, NameSetPlan, NameSetStatus},
};
use crate::{
    base::{
        acme_config::AcmeConfig,
        error::{UserError, reason},
    },
    control::{metrics::CertificateMetrics, process::clock},
    data::acme_table::{AcmeTable, CERTIFICATE_COUNT_MAX},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    fs::File,
    io::Read,
    mem,
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
    unstored: Unstored,
    /// What the helper was told to do last.
    job: Option<HelperJob>,
    states: Vec<NameSetStatus>,
}

/// Credentials in use that the store lacks, as after a full disk.
#[derive(Debug, Default)]
struct Unstored {
    account: bool,
    /// The names of each certificate.
    sets: BTreeSet<Vec<String>>,
    /// When to store it.
    retry_at: Option<Tick>,
}

/// A job of the helper.
#[derive(Debug)]
struct HelperJob {
    names: Vec<String>,
    /// The helper has made an account for it.
    has_new_account: bool,
}

/// What the orders of a generation need.
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

/// The time between two attempts to store something.
const STORE_INTERVAL: Duration = Duration::from_secs(60);

impl fmt::Debug for ServedAcme {
    /// Without the key of the account.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedAcme").field("sets", &self.sets).finish_non_exhaustive()
    }
}

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
        check_count(&sets)?;
        let roots = read_roots(config)?;
        let store = AcmeStore::open(state, &config.directory)?;
        Ok(Some(AcmeService { config: config.clone(), roots, sets, store }))
    }

    /// Returns each error of [`open`](AcmeService::open), without changing the state directory.
    pub(crate) fn errors(config: &AcmeConfig, sets: &[Vec<String>], state: &Path) -> Vec<UserError> {
        if sets.is_empty() {
            return Vec::new();
        }
        let found = [check_count(sets), read_roots(config).map(drop), AcmeStore::check(state)];
        found.into_iter().filter_map(Result::err).collect()
    }
}

fn check_count(sets: &[Vec<String>]) -> Result<(), UserError> {
    match sets.len() > CERTIFICATE_COUNT_MAX {
        false => Ok(()),
        true => Err(UserError::new(
            "cannot obtain certificates",
            format_args!("{} sites have names, and at most {CERTIFICATE_COUNT_MAX} may", sets.len()),
            "give sites that share files one site with several names",
        )),
    }
}

/// Reads the roots that the directory is checked with. `None`: those of the system.
fn read_roots(config: &AcmeConfig) -> Result<Option<Vec<u8>>, UserError> {
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
            .about("acme-ca")
        })
    });
    roots.transpose()
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
            unstored: Unstored::default(),
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
            if !self.certificates.contains_key(names) {
                self.read(&service.store, names, outputs);
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
        let directory = service.map(|service| &service.config.directory);
        let is_same_directory = self.served.as_ref().map(|served| Some(&served.directory) == directory);
        if let Some(AcmeService { store, .. }) = service {
            if is_same_directory == Some(false) {
                // The certificates of the former directory serve on, and are replaced at once.
                self.handle(now, AcmeEvent::Configured(Vec::new()), outputs);
                sets.iter().for_each(|names| drop(self.certificates.remove(names)));
                self.unstored = Unstored::default();
            }
            // A predecessor may have stored another certificate since this program has read them.
            if is_same_directory != Some(true) {
                sets.iter().for_each(|names| self.read(store, names, outputs));
            }
        }
        let unstored_account = self.served.take().and_then(|served| served.account);
        let unstored_account = unstored_account.filter(|_| self.unstored.account);
        self.served = service.map(|service| {
            let account = match service.store.account(&service.config.directory) {
                Stored::Found(account) => Some(account),
                Stored::Nothing if is_same_directory == Some(true) => unstored_account,
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

    /// Reads a stored certificate, and publishes it if it is another one.
    fn read(&mut self, store: &AcmeStore, names: &[String], outputs: &mut Vec<AcmeOutput>) {
        match store.certificate(names) {
            Stored::Found(certificate) if self.certificates.get(names) != Some(&certificate) => {
                self.publish(names, certificate);
            }
            Stored::Nothing | Stored::Found(_) => {}
            Stored::Damaged(why) => outputs.push(AcmeOutput::Emit(AcmeNotice::Damaged(why))),
        }
    }

    /// Orders no more certificates. The server keeps the present ones.
    pub(crate) fn end(&mut self) {
        self.served = None;
        self.table.clear_challenges();
    }

    /// Returns whether the helper works on a job.
    pub(crate) fn is_busy(&self) -> bool {
        self.machine.job().is_some()
    }

    /// Returns when [`AcmeEvent::Timer`] is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        self.served.as_ref()?;
        self.machine.deadline().into_iter().chain(self.unstored.retry_at).min()
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
        self.store_again(now, outputs);
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
                self.job = Some(HelperJob { names, has_new_account: false });
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
                self.job = Some(HelperJob { names, has_new_account: false });
                outputs.push(AcmeOutput::Send(Box::new(message)));
            }
            AcmeAction::ClearChallenges => self.table.clear_challenges(),
            AcmeAction::ForgetAccount => {
                if let Some(served) = &mut self.served {
                    served.account = None;
                    served.store.forget_account();
                    self.unstored.account = false;
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
        let current = self.machine.job();
        // A late message of a job that has ended has no meaning.
        let Some(job) = self.job.as_mut().filter(|_| message.is_of(current)) else { return Ok(()) };
        let names = job.names.clone();
        message.check(&names)?;
        let event = match message {
            FromNet::Account { credentials } => {
                let Some(served) = &mut self.served else { return Ok(()) };
                if !is_account_of(&credentials, &served.directory) {
                    return Err("an account of another directory");
                }
                if mem::replace(&mut job.has_new_account, true) {
                    return Err("more accounts than an order needs");
                }
                served.account = Some(credentials);
                self.store_account(now, outputs);
                return Ok(());
            }
            FromNet::Present { id, name, challenge } => {
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
            FromNet::Issued { id, chain, key } => match Certificate::from_pem(&chain, &key, &names) {
                // The helper has checked nothing: it is as the directory has sent it.
                Err(error) => AcmeEvent::OrderFailed(id, OrderFailure::new(FailureKind::Directory, error)),
                Ok(certificate) => {
                    self.store_certificate(now, &names, &certificate, outputs);
                    let validity = certificate.validity();
                    self.publish(&names, certificate);
                    AcmeEvent::Issued(id, validity)
                }
            },
            FromNet::Failed { id, failure } => AcmeEvent::OrderFailed(id, failure.checked()),
            FromNet::Renewal { id, answer } => {
                let answer = answer.map(|(window, wait_s)| (window, Duration::from_secs(wait_s)));
                AcmeEvent::RenewalAnswered(id, answer)
            }
        };
        self.job = None;
        self.handle(now, event, outputs);
        Ok(())
    }

    /// Stores a certificate, or notes that it is not stored.
    fn store_certificate(
        &mut self,
        now: AcmeTime,
        names: &[String],
        certificate: &Certificate,
        outputs: &mut Vec<AcmeOutput>,
    ) {
        let Some(served) = &self.served else { return };
        match served.store.set_certificate(names, certificate) {
            Ok(()) if self.unstored.sets.remove(names) => {
                outputs.push(AcmeOutput::Emit(AcmeNotice::StoredLate(certificate_of(names))));
            }
            Ok(()) => {}
            Err(error) => {
                if self.unstored.sets.insert(names.to_vec()) {
                    outputs.push(AcmeOutput::Emit(not_stored(certificate_of(names), &error)));
                }
                self.unstored.retry_at = Some(clock::after(now.tick, STORE_INTERVAL));
            }
        }
    }

    /// Stores the account, or notes that it is not stored.
    fn store_account(&mut self, now: AcmeTime, outputs: &mut Vec<AcmeOutput>) {
        let Some(ServedAcme { store, account: Some(account), .. }) = &self.served else { return };
        let stored = store.set_account(account);
        let was_unstored = mem::replace(&mut self.unstored.account, stored.is_err());
        match stored {
            Ok(()) if was_unstored => outputs.push(AcmeOutput::Emit(AcmeNotice::StoredLate(account_name()))),
            Ok(()) => {}
            Err(error) => {
                if !was_unstored {
                    outputs.push(AcmeOutput::Emit(not_stored(account_name(), &error)));
                }
                self.unstored.retry_at = Some(clock::after(now.tick, STORE_INTERVAL));
            }
        }
    }

    /// Stores what the store lacks, if it is time for that.
    fn store_again(&mut self, now: AcmeTime, outputs: &mut Vec<AcmeOutput>) {
        if self.unstored.retry_at.is_none_or(|at| at > now.tick) {
            return;
        }
        self.unstored.retry_at = None;
        if self.unstored.account {
            self.store_account(now, outputs);
        }
        for names in self.unstored.sets.clone() {
            match self.certificates.get(&names).cloned() {
                Some(certificate) => self.store_certificate(now, &names, &certificate, outputs),
                // No configuration names it any more.
                None => drop(self.unstored.sets.remove(&names)),
            }
        }
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

fn not_stored(what: String, error: &std::io::Error) -> AcmeNotice {
    AcmeNotice::NotStored { what, why: reason(error) }
}

fn certificate_of(names: &[String]) -> String {
    format!("certificate for {}", names.join(", "))
}

fn account_name() -> String {
    "account at the directory".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::acme::{certificate::testing, vocabulary::JobId};

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
    fn what_cannot_be_stored_serves_and_is_stored_later() {
        let state = tempfile::tempdir().unwrap();
        let service = service(state.path(), "https://ca.example/");
        let names = &service.sets[0];
        let old = testing::certificate(names);
        service.store.set_certificate(names, &old).unwrap();
        // A directory in the place of each temporary file: no file can be created.
        let blocks = |block: bool| {
            for file in service.store.temporary_files(names) {
                if block { std::fs::create_dir(file).unwrap() } else { std::fs::remove_dir(file).unwrap() }
            }
        };
        blocks(true);
        let (mut driver, mut outputs) = (AcmeDriver::new(NOW).unwrap(), Vec::new());
        driver.adopt(NOW, Some(&service), &mut outputs);
        driver.handle(NOW, AcmeEvent::HelperStarted, &mut outputs);
        // Valid for two more thousand years: only a wall clock far ahead renews it.
        let late = AcmeTime { tick: Tick(1), unix_s: 60_000_000_000 };
        if let Some(ToNet::AskRenewal { id, .. }) = sent(&outputs) {
            let id = *id;
            outputs.clear();
            driver.receive(late, FromNet::Renewal { id, answer: None }, &mut outputs).unwrap();
        }
        let Some(ToNet::Order { id, .. }) = sent(&outputs) else { panic!("{outputs:?}") };
        let id = *id;
        outputs.clear();
        let notices = |outputs: &mut Vec<AcmeOutput>| -> Vec<AcmeNotice> {
            let notice = |output| match output {
                AcmeOutput::Emit(notice) => Some(notice),
                _ => None,
            };
            outputs.drain(..).filter_map(notice).collect()
        };
        let credentials = r#"{"directory":"https://ca.example/"}"#.to_owned();
        driver.receive(late, FromNet::Account { credentials: credentials.clone() }, &mut outputs).unwrap();
        let issued = testing::certificate(names);
        let (chain, key) = (issued.chain_pem().to_owned(), issued.key_pem().to_owned());
        let served = [(0, format!("{key}{chain}"))];
        driver.load(&service, &mut outputs);
        driver.receive(late, FromNet::Issued { id, chain, key }, &mut outputs).unwrap();
        let not_stored = |notices: &[AcmeNotice]| {
            notices.iter().filter(|notice| matches!(notice, AcmeNotice::NotStored { .. })).count()
        };
        assert_eq!(not_stored(&notices(&mut outputs)), 2, "the account and the certificate");
        assert_eq!(driver.table().certificates(), served);
        assert_eq!(service.store.certificate(names), Stored::Found(old), "the former one is whole");
        // The driver warns once, and a reload keeps both.
        let at =
            |number: u64| AcmeTime { tick: clock::after(late.tick, STORE_INTERVAL * number as u32), ..late };
        assert!(driver.deadline().is_some_and(|deadline| deadline <= at(1).tick));
        driver.handle(at(1), AcmeEvent::Timer, &mut outputs);
        driver.adopt(at(1), Some(&service), &mut outputs);
        assert_eq!(not_stored(&notices(&mut outputs)), 0);
        blocks(false);
        driver.handle(at(2), AcmeEvent::Timer, &mut outputs);
        let stored = ["account at the directory", "certificate for a.example"];
        assert_eq!(
            notices(&mut outputs),
            stored.map(|what| AcmeNotice::StoredLate(what.to_owned())),
            "each is said once"
        );
        assert_eq!(service.store.certificate(names), Stored::Found(issued));
        assert_eq!(service.store.account("https://ca.example/"), Stored::Found(credentials));
        driver.handle(at(3), AcmeEvent::Timer, &mut outputs);
        assert_eq!(notices(&mut outputs), []);
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
        let account = |url: &str| FromNet::Account { credentials: format!(r#"{{"directory":"{url}"}}"#) };
        assert!(driver.receive(NOW, account("https://b.example/"), &mut outputs).is_err());
        assert!(
            driver.receive(NOW, present(JobId(id.0 + 1), "a.example"), &mut outputs).is_ok(),
            "of another job"
        );
        assert_eq!(driver.table().challenge_certificate("a.example"), None);
        assert!(driver.receive(NOW, present(id, "a.example"), &mut outputs).is_ok());
        assert!(driver.table().challenge_certificate("a.example").is_some());
        assert!(driver.receive(NOW, account("https://ca.example/"), &mut outputs).is_ok());
        assert!(driver.receive(NOW, account("https://ca.example/"), &mut outputs).is_err(), "a second one");
        // A certificate without the name is a failed order, and removes the challenges.
        let other = testing::certificate(&["b.example".to_owned()]);
        let (chain, key) = (other.chain_pem().to_owned(), other.key_pem().to_owned());
        driver.receive(NOW, FromNet::Issued { id, chain, key }, &mut outputs).unwrap();
        assert_eq!(driver.table().challenge_certificate("a.example"), None);
        assert!(driver.table().certificates().is_empty());
        let states = driver.table().states();
        assert!(states[0].contains("its certificate lacks a name"), "{states:?}");
        // No job, no account: a helper cannot keep the disk busy.
        let file = service.store.account(&service.config.directory);
        assert!(driver.receive(NOW, account("https://other.example/"), &mut outputs).is_ok());
        assert_eq!(service.store.account(&service.config.directory), file);
    }

    #[test]
    fn late_certificate_of_a_job_that_has_ended_is_not_used() {
        let state = tempfile::tempdir().unwrap();
        let service = service(state.path(), "https://ca.example/");
        let names = &service.sets[0];
        let (mut driver, mut outputs) = (AcmeDriver::new(NOW).unwrap(), Vec::new());
        driver.load(&service, &mut outputs);
        driver.adopt(NOW, Some(&service), &mut outputs);
        driver.handle(NOW, AcmeEvent::HelperStarted, &mut outputs);
        let Some(ToNet::Order { id, .. }) = sent(&outputs) else { panic!("{outputs:?}") };
        let id = *id;
        let late = AcmeTime { tick: driver.deadline().expect("a limit of time"), ..NOW };
        driver.handle(late, AcmeEvent::Timer, &mut outputs);
        assert!(outputs.iter().any(|output| matches!(output, AcmeOutput::KillHelper)), "{outputs:?}");
        let issued = testing::certificate(names);
        let (chain, key) = (issued.chain_pem().to_owned(), issued.key_pem().to_owned());
        driver.receive(late, FromNet::Issued { id, chain, key }, &mut outputs).unwrap();
        assert_eq!(driver.table().certificates(), []);
        assert_eq!(service.store.certificate(names), Stored::Nothing);
    }

    /// As a predecessor does between the start of its successor and the commit.
    #[test]
    fn certificate_that_was_stored_since_the_load_is_adopted() {
        let state = tempfile::tempdir().unwrap();
        let service = service(state.path(), "https://ca.example/");
        let names = &service.sets[0];
        let [former, latest] = [(); 2].map(|()| testing::certificate(names));
        service.store.set_certificate(names, &former).unwrap();
        let (mut driver, mut outputs) = (AcmeDriver::new(NOW).unwrap(), Vec::new());
        driver.load(&service, &mut outputs);
        service.store.set_certificate(names, &latest).unwrap();
        driver.adopt(NOW, Some(&service), &mut outputs);
        let served = format!("{}{}", latest.key_pem(), latest.chain_pem());
        assert_eq!(driver.table().certificates(), [(0, served)]);
    }
}
