//! Certificates: what the driver of the supervisor does for that of ACME.

use super::{
    super::{
        Notice, Service,
        event::{GenerationId, ProcessStart, SupervisorEvent},
    },
    Driver, unix_s,
};
use crate::{
    base::error::UserError,
    control::{
        acme::{
            driver::{AcmeDriver, AcmeOutput, AcmeService},
            message::FromNet,
            store::state_directory,
            vocabulary::{AcmeEvent, AcmeNotice, AcmeTime},
        },
        helpers::HelperKind,
        process::{ProcessId, clock},
    },
    sys::{inject, io::output_has_room},
};
use std::{io, path::PathBuf, sync::Arc, time::Duration};

/// Messages of the helper that the driver receives in one turn of its loop. An order has some messages for each of its names.
const MESSAGES_PER_TURN: usize = 16;

/// Returns the names of each certificate that a configuration obtains, and the state directory.
pub(crate) fn acme_sets(service: &Service) -> (Vec<Vec<String>>, PathBuf) {
    let names = service.sites.iter().map(|site| &site.domains).filter(|domains| !domains.is_empty());
    let sets = names.map(|domains| domains.iter().map(ToString::to_string).collect()).collect();
    let is_root = rustix::process::geteuid().is_root();
    (sets, state_directory(service.acme.state_directory.as_deref(), is_root))
}

impl Driver<'_> {
    fn acme_now(&self) -> AcmeTime {
        let offset = inject::clock_offset();
        AcmeTime { tick: clock::after(self.clock.now(), offset), unix_s: unix_s() + offset.as_secs() }
    }

    /// Returns the time until something is due.
    pub(super) fn acme_wait(&self) -> Option<Duration> {
        let deadline = self.acme.as_ref().and_then(AcmeDriver::deadline)?;
        Some(self.clock.until(deadline).saturating_sub(inject::clock_offset()))
    }

    /// Opens what a configuration needs for its certificates, and publishes those that are stored.
    pub(super) fn prepare_acme(&mut self, service: &Service) -> Result<Option<AcmeService>, UserError> {
        let (sets, state) = acme_sets(service);
        let Some(opened) = AcmeService::open(&service.acme, sets, &state)? else { return Ok(None) };
        let now = self.acme_now();
        let acme = match &mut self.acme {
            Some(acme) => acme,
            none => none.insert(AcmeDriver::new(now).map_err(|error| {
                let hint = "the system is out of memory";
                UserError::new("cannot share certificates", crate::base::error::reason(&error), hint)
            })?),
        };
        let mut outputs = Vec::new();
        acme.load(&opened, &mut outputs);
        self.perform_acme(outputs);
        Ok(Some(opened))
    }

    /// Obtains the certificates of a generation, which serves now.
    pub(super) fn adopt_acme(&mut self, id: GenerationId) {
        self.adopted = Some(id);
        let helper = ProcessStart::Helper(id, HelperKind::Net);
        self.net = self.starts.iter().find(|(_, start)| **start == helper).map(|(process, _)| *process);
        let (now, service) =
            (self.acme_now(), self.generations.get(&id).and_then(|found| found.acme.as_ref()));
        let (Some(acme), mut outputs) = (&mut self.acme, Vec::new()) else { return };
        acme.adopt(now, service, &mut outputs);
        let event = if self.net.is_some() { AcmeEvent::HelperStarted } else { AcmeEvent::HelperExited };
        acme.handle(now, event, &mut outputs);
        self.perform_acme(outputs);
    }

    /// Orders no more: the program exits, or its successor does.
    pub(super) fn end_acme(&mut self) {
        self.adopted = None;
        if self.net.take().is_some() {
            self.handle_acme(AcmeEvent::HelperExited);
        }
        if let Some(acme) = &mut self.acme {
            acme.end();
        }
    }

    /// Notes that a helper runs.
    pub(super) fn helper_started(&mut self, process: ProcessId, start: ProcessStart) {
        if let ProcessStart::Helper(id, HelperKind::Net) = start
            && self.adopted == Some(id)
        {
            self.net = Some(process);
            self.handle_acme(AcmeEvent::HelperStarted);
        }
    }

    /// Notes that a process has exited.
    pub(super) fn helper_exited(&mut self, process: ProcessId) {
        if self.net.take_if(|net| *net == process).is_some() {
            self.handle_acme(AcmeEvent::HelperExited);
        }
    }

    /// Does what is due.
    pub(super) fn update_acme(&mut self) {
        // Simulated time stands still while the helper works.
        if !self.acme.as_ref().is_some_and(AcmeDriver::is_busy) {
            inject::update_clock_offset();
        }
        if self.acme_wait().is_some_and(|wait| wait.is_zero()) {
            self.handle_acme(AcmeEvent::Timer);
        }
    }

    /// Receives a message of a helper. One of a generation that does not serve has no meaning.
    pub(super) fn receive_from_net(&mut self, process: ProcessId) -> io::Result<Option<SupervisorEvent>> {
        for _ in 0..MESSAGES_PER_TURN {
            let Some((message, _)) = self.children.receive::<FromNet>(process)? else { return Ok(None) };
            let now = self.acme_now();
            let Some(acme) = self.acme.as_mut().filter(|_| self.net == Some(process)) else { continue };
            let mut outputs = Vec::new();
            let received = acme.receive(now, message, &mut outputs);
            self.perform_acme(outputs);
            received.map_err(io::Error::other)?;
        }
        Ok(None)
    }

    fn handle_acme(&mut self, event: AcmeEvent) {
        let (now, mut outputs) = (self.acme_now(), Vec::new());
        if let Some(acme) = &mut self.acme {
            acme.handle(now, event, &mut outputs);
        }
        self.perform_acme(outputs);
    }

    fn perform_acme(&mut self, outputs: Vec<AcmeOutput>) {
        for output in outputs {
            match (output, self.net) {
                (AcmeOutput::Send(message), Some(net)) => {
                    self.children.send(net, None, &*message, &Arc::default());
                }
                (AcmeOutput::KillHelper, Some(net)) => self.children.kill(net),
                (AcmeOutput::Send(_) | AcmeOutput::KillHelper, None) => {}
                (AcmeOutput::Emit(notice), _) => self.emit_acme(&notice),
            }
        }
    }

    fn emit_acme(&self, notice: &AcmeNotice) {
        if !output_has_room() {
            return;
        }
        let emit = self.emit;
        match notice {
            AcmeNotice::Obtained { names, days } => emit(Notice::CertificateObtained { names, days: *days }),
            AcmeNotice::Failed { names, failure, retry_delay, days_left } => {
                emit(Notice::CertificateFailed {
                    names,
                    why: &failure.to_string(),
                    hint: failure.hint(),
                    retry_delay: *retry_delay,
                    days_left: *days_left,
                })
            }
            AcmeNotice::AccountReplaced => emit(Notice::CertificateWarning(
                "the directory does not know the account any more; a new account is made",
            )),
            AcmeNotice::Damaged(why) => emit(Notice::CertificateWarning(why)),
            AcmeNotice::NotStored { what, why } => emit(Notice::CertificateWarning(&format!(
                "the new {what} is used, but cannot be stored: {why}; make room in the state directory, or make it writable; tarpon tries \
                 again each minute"
            ))),
            AcmeNotice::StoredLate(what) => {
                emit(Notice::CertificateWarning(&format!("the new {what} is stored now")));
            }
        }
    }
}
