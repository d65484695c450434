//! Performs the actions of the supervisor.

use super::{
    super::{
        Notice,
        event::{Action, GenerationId, LogId, SupervisorEvent, SupervisorNotice, SystemdState, ToChild},
    },
    Driver,
};
use crate::{
    control::{
        admin::Order,
        handover::predecessor::PredecessorChannel,
        process::{
            ProcessId,
            channel::unshared,
            message::{ToServer, ToSuccessor},
        },
    },
    sys::{io::output_has_room, signals::die_of},
};
use rustix::process::Signal;
use std::{mem, sync::Arc};

impl Driver<'_> {
    /// Performs an action. Its result, if it has any, is the next event.
    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::Prepare(id) => self.prepare_and_report(id),
            Action::Start(process, start) => {
                let event = match self.start(process, start) {
                    Ok(()) => SupervisorEvent::Started(process),
                    Err(error) => SupervisorEvent::StartFailed(process, error),
                };
                self.events.push_back(event);
            }
            Action::Send(process, message) => self.send(process, message),
            Action::Kill(process) => self.end_process(process),
            Action::Release(process) => {
                self.successor = self.children.remove(process).map(|channel| *channel);
                self.starts.remove(&process);
            }
            Action::DropVersion(id) => drop(self.versions.remove(&id)),
            Action::OpenLog(log) => self.open_log(log),
            Action::CheckLog(log) => self.check_log(log),
            Action::CheckCertificates(id) => {
                self.ticket_keys.get().iter().for_each(|keys| keys.advance());
                let generation = self.generations.get_mut(&id);
                if generation.is_some_and(|generation| generation.tls.have_files_changed()) {
                    self.events.push_back(SupervisorEvent::CertificatesChanged(id));
                }
            }
            Action::AdoptListeners(id) => {
                if let Some(generation) = self.generations.get_mut(&id) {
                    generation.added.clear();
                    self.listeners.keep_only(&generation.service);
                }
                self.adopt_acme(id);
            }
            Action::Forget(id) => {
                if let Some(generation) = self.generations.remove(&id) {
                    self.listeners.remove(&generation.added);
                }
            }
            Action::CloseListeners => {
                self.listeners.close();
                self.end_acme();
            }
            Action::OwnSocketFiles(is_ours) => self.listeners.own_files(is_ours),
            Action::Announce(announcement) => self.announce(*announcement),
            Action::Emit(notice) => self.emit(notice),
            Action::Notify(state) => self.notify(state),
            Action::Reply(caller, outcome) => self.reply(caller, outcome),
            Action::NotifyPredecessor => self.predecessor.iter_mut().for_each(PredecessorChannel::serving),
            Action::Die(number) => {
                // Dropping the children kills and reaps them.
                drop(mem::take(&mut self.children));
                die_of(Signal::from_named_raw(number).unwrap_or(Signal::TERM));
            }
            Action::Exit(result) => self.result = Some(result),
        }
    }

    fn prepare_and_report(&mut self, id: GenerationId) {
        let is_first = self.generations.is_empty();
        let prepared = self.prepare(id).and_then(|plan| {
            if is_first {
                self.predecessor.as_mut().map(PredecessorChannel::config_read).transpose()?;
            }
            Ok(plan)
        });
        let prepared = prepared.map_err(|error| {
            let why = error.to_string();
            self.start_error = is_first.then_some(error);
            why
        });
        self.events.push_back(SupervisorEvent::Prepared(id, prepared));
    }

    fn send(&mut self, process: ProcessId, message: ToChild) {
        let (message, descriptors) = match message {
            ToChild::Site { site, version, is_earlier, loads } => {
                let Some((transfer, descriptors)) = self.versions.get(&version) else { return };
                let message = ToServer::Site { site, transfer: transfer.clone(), is_earlier, loads };
                (message, Arc::clone(descriptors))
            }
            ToChild::Log { log: LogId(generation, number), of } => {
                let generation = self.generations.get(&generation);
                let Some(log) = generation.and_then(|generation| generation.logs.get(number)) else { return };
                (ToServer::Log { of }, Arc::clone(log.descriptor()))
            }
            ToChild::Shutdown { mode, grace } => (ToServer::Shutdown { mode, grace }, Arc::default()),
            ToChild::Commit { callers } => {
                let connections = callers.iter().filter_map(|caller| self.callers.remove(caller));
                self.children.send(process, None, &ToSuccessor::Commit, &unshared(connections));
                return;
            }
        };
        self.children.send(process, message.key(), &message, &descriptors);
    }

    fn open_log(&mut self, log @ LogId(generation, number): LogId) {
        let generation = self.generations.get_mut(&generation);
        let Some(open) = generation.and_then(|generation| generation.logs.get_mut(number)) else { return };
        self.events.push_back(match open.reopen() {
            Ok(()) => SupervisorEvent::LogOpened(log),
            Err(error) => SupervisorEvent::LogOpenFailed(log, error),
        });
    }

    fn check_log(&mut self, log @ LogId(generation, number): LogId) {
        let generation = self.generations.get_mut(&generation);
        let Some(open) = generation.and_then(|generation| generation.logs.get_mut(number)) else { return };
        match open.rotate_if_due() {
            Ok(true) => self.events.push_back(SupervisorEvent::LogOpened(log)),
            Ok(false) => {}
            Err(error) => self.events.push_back(SupervisorEvent::LogRotateFailed(log, error)),
        }
    }

    /// Emits the numbers of suppressed notices that are due.
    pub(super) fn emit_suppressed(&mut self) {
        while let Some((role, count)) = self.notice_limit.take_suppressed(self.clock.now()) {
            if output_has_room() {
                (self.emit)(Notice::Suppressed(role, count));
            }
        }
    }

    /// Emits a notice, unless its child has caused too many, or the write would wait for a reader of the output.
    fn emit(&mut self, notice: SupervisorNotice) {
        let is_admitted = notice.cause().is_none_or(|role| self.notice_limit.admit(self.clock.now(), role));
        if !is_admitted || !output_has_room() {
            return;
        }
        let emit = self.emit;
        match notice {
            SupervisorNotice::ProcessEnded { role, how, restart_delay } => {
                emit(Notice::ProcessEnded { role, how: &how, restart_delay });
            }
            SupervisorNotice::StartFailed { role, error, retry_delay } => {
                emit(Notice::StartFailed { role, error: &error, retry_delay });
            }
            SupervisorNotice::SiteReloadFailed(error) => emit(Notice::SiteReloadFailed(&error)),
            SupervisorNotice::SiteRejected { why, retry_delay } => {
                emit(Notice::SiteRejected { why: &why, retry_delay });
            }
            SupervisorNotice::LogReopenFailed(error) => emit(Notice::LogReopenFailed(&error)),
            SupervisorNotice::OrderFailed(Order::Reload, why) => emit(Notice::ReloadFailed(&why)),
            SupervisorNotice::OrderFailed(Order::Upgrade, why) => emit(Notice::UpgradeFailed(&why)),
            SupervisorNotice::Upgraded(process) => emit(Notice::Upgraded(self.pid_number(process))),
            SupervisorNotice::DrainFailed(why) => emit(Notice::DrainFailed(&why)),
            SupervisorNotice::Stopping(grace) => emit(Notice::Stopping(grace)),
        }
    }

    fn notify(&self, state: SystemdState) {
        match state {
            SystemdState::Ready(status) => self.systemd.ready(&status),
            SystemdState::Reloading => self.systemd.reloading(),
            SystemdState::Stopping => self.systemd.stopping(),
            SystemdState::MainProcess(process) => self.systemd.main_process(self.pid_number(process)),
        }
    }

    /// Returns the process ID of a child, for messages.
    fn pid_number(&self, process: ProcessId) -> u32 {
        self.children.pid(process).map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
    }
}
