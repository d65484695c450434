//! Changes settings of the kernel, and sets them back: sysctl(8) without the program.
//!
//! ```text
//! apply:  changes ─▶ may this process write them? ─▶ record of former values, on disk ─▶ write ─▶ read again
//! undo:   record  ─▶ does a setting still have our value? ─▶ write the former one ─▶ read again ─▶ remove from the record
//! ```

use super::{
    finding::SysctlChange,
    system_facts::{read_fact, sysctl_path},
    undo_record::{FormerValue, UndoRecord, UndoStore},
};
use crate::base::error::{UserError, reason};
use rustix::process::geteuid;
use serde::Serialize;
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

/// The outcomes of all changes, in their order, and the file with the former values.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeReport {
    pub(crate) outcomes: Vec<ChangeOutcome>,
    /// The file with the former values.
    pub(crate) record: PathBuf,
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ChangeOutcome {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// Why it has not changed. `None`: it has.
    pub(crate) failure: Option<String>,
}

impl ChangeReport {
    /// Returns whether each setting has its new value.
    pub(crate) fn is_complete(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.failure.is_none())
    }
}

/// Makes these changes, after it has written the present values to the state directory.
///
/// # Errors
/// This process is not root, or the values cannot be written. Nothing has changed then.
pub(crate) fn apply(changes: &[SysctlChange], state: &Path) -> Result<ChangeReport, UserError> {
    require_root("--apply")?;
    apply_to(&KernelSettings::SYSTEM, changes, state)
}

/// Sets the settings back that [`apply`] has changed and that still have its values.
///
/// # Errors
/// This process is not root, or the record cannot be used.
pub(crate) fn undo(state: &Path) -> Result<ChangeReport, UserError> {
    require_root("--undo")?;
    undo_in(&KernelSettings::SYSTEM, state)
}

fn require_root(option: &str) -> Result<(), UserError> {
    let why = match (cfg!(target_os = "linux"), geteuid().is_root()) {
        (true, true) => return Ok(()),
        (true, false) => "only root may change settings of the kernel",
        (false, _) => "tarpon knows the settings of Linux alone",
    };
    Err(UserError::new(
        format_args!("cannot run tarpon doctor {option}"),
        why,
        "run it as root, as with sudo, or run the commands that tarpon doctor prints",
    ))
}

/// The place of the settings: the system, or a directory in tests.
struct KernelSettings {
    /// A directory in place of the root. Empty: the system.
    root: &'static str,
}

impl KernelSettings {
    const SYSTEM: KernelSettings = KernelSettings { root: "" };

    fn path(&self, name: &str) -> String {
        format!("{}{}", self.root, sysctl_path(name))
    }

    fn read(&self, name: &str) -> Result<String, String> {
        read_fact(&self.path(name))
    }

    /// Returns why this process may not write a setting: in a container, some are read-only.
    fn barrier(&self, name: &str) -> Option<String> {
        OpenOptions::new().write(true).open(self.path(name)).err().map(|error| reason(&error))
    }

    /// Writes a setting, and reads it again.
    fn write(&self, name: &str, value: &str) -> Result<(), String> {
        let mut file =
            OpenOptions::new().write(true).open(self.path(name)).map_err(|error| reason(&error))?;
        // The kernel takes the value of one write.
        file.write_all(format!("{value}\n").as_bytes()).map_err(|error| reason(&error))?;
        drop(file);
        match self.read(name)? {
            found if found == value => Ok(()),
            found => Err(format!("the kernel has taken {found} instead of {value}")),
        }
    }
}

fn apply_to(
    settings: &KernelSettings,
    changes: &[SysctlChange],
    state: &Path,
) -> Result<ChangeReport, UserError> {
    let store = UndoStore::open(state, true)?.expect("it was made");
    let mut record = store.read()?;
    let barriers: Vec<Option<String>> = changes.iter().map(|change| settings.barrier(change.name)).collect();
    let writable = changes.iter().zip(&barriers).filter(|(_, barrier)| barrier.is_none());
    writable.for_each(|(change, _)| record.add(change));
    store.write(&record)?;
    let outcomes = changes.iter().zip(barriers).map(|(SysctlChange { name, from, to }, barrier)| {
        let failure = barrier.or_else(|| settings.write(name, to).err());
        ChangeOutcome { name: (*name).to_owned(), from: from.clone(), to: to.clone(), failure }
    });
    Ok(ChangeReport { outcomes: outcomes.collect(), record: store.file() })
}

fn undo_in(settings: &KernelSettings, state: &Path) -> Result<ChangeReport, UserError> {
    let Some(store) = UndoStore::open(state, false)? else {
        return Ok(ChangeReport { outcomes: Vec::new(), record: state.join("doctor-undo.json") });
    };
    let record = store.read()?;
    let (mut outcomes, mut left) = (Vec::new(), UndoRecord::default());
    for value in record.values {
        let FormerValue { name, before, after } = &value;
        let outcome = |from: &str, failure| ChangeOutcome {
            name: name.clone(),
            from: from.to_owned(),
            to: before.clone(),
            failure,
        };
        match settings.read(name) {
            // As after a restart of the machine.
            Ok(now) if now == *before => {}
            Ok(now) if now == *after => {
                let failure = settings.write(name, before).err();
                outcomes.push(outcome(&now, failure.clone()));
                left.values.extend(failure.map(|_| value));
            }
            Ok(now) => {
                let why = format!("not restored: another program has set it to {now}");
                outcomes.push(outcome(&now, Some(why)));
            }
            Err(why) => {
                outcomes.push(outcome(after, Some(format!("cannot read it: {why}"))));
                left.values.push(value);
            }
        }
    }
    store.write(&left)?;
    Ok(ChangeReport { outcomes, record: store.file() })
}

impl UndoRecord {
    /// Adds the present value of a setting. If the doctor has set that one, too, the value before it stays.
    fn add(&mut self, SysctlChange { name, from, to }: &SysctlChange) {
        match self.values.iter_mut().find(|value| value.name == *name) {
            Some(value) if value.after == *from => value.after.clone_from(to),
            Some(value) => (value.before, value.after) = (from.clone(), to.clone()),
            None => {
                let (before, after) = (from.clone(), to.clone());
                self.values.push(FormerValue { name: (*name).to_owned(), before, after });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    /// A directory with settings as files, and a state directory.
    struct FakeKernel {
        dir: tempfile::TempDir,
        settings: KernelSettings,
    }

    impl FakeKernel {
        fn new(values: &[(&str, &str)]) -> FakeKernel {
            let dir = tempfile::tempdir().unwrap();
            let root = Box::leak(dir.path().to_str().unwrap().to_owned().into_boxed_str());
            let kernel = FakeKernel { dir, settings: KernelSettings { root } };
            for (name, value) in values {
                kernel.set(name, value);
            }
            kernel
        }

        fn set(&self, name: &str, value: &str) {
            let path = self.settings.path(name);
            fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }

        fn get(&self, name: &str) -> String {
            self.settings.read(name).unwrap()
        }

        fn state(&self) -> PathBuf {
            self.dir.path().join("state")
        }

        fn apply(&self, changes: &[SysctlChange]) -> ChangeReport {
            apply_to(&self.settings, changes, &self.state()).unwrap()
        }

        fn undo(&self) -> ChangeReport {
            undo_in(&self.settings, &self.state()).unwrap()
        }
    }

    const BACKLOG: &str = "net.core.somaxconn";
    const COOKIES: &str = "net.ipv4.tcp_syncookies";

    fn change(name: &'static str, from: &str, to: &str) -> SysctlChange {
        SysctlChange { name, from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn changes_are_undone_and_the_record_goes() {
        let kernel = FakeKernel::new(&[(BACKLOG, "128"), (COOKIES, "0")]);
        assert!(kernel.undo().outcomes.is_empty(), "nothing to undo");
        let report = kernel.apply(&[change(BACKLOG, "128", "4096"), change(COOKIES, "0", "1")]);
        assert!(report.is_complete() && report.record.exists(), "{report:?}");
        assert_eq!([kernel.get(BACKLOG), kernel.get(COOKIES)], ["4096", "1"]);
        let undone = kernel.undo();
        assert!(undone.is_complete() && undone.outcomes.len() == 2 && !undone.record.exists(), "{undone:?}");
        assert_eq!([kernel.get(BACKLOG), kernel.get(COOKIES)], ["128", "0"]);
        assert!(kernel.undo().outcomes.is_empty(), "a second time there is nothing");
    }

    #[test]
    fn value_before_the_first_change_is_kept() {
        let kernel = FakeKernel::new(&[(BACKLOG, "128")]);
        kernel.apply(&[change(BACKLOG, "128", "4096")]);
        // A later version of the program proposes more.
        kernel.apply(&[change(BACKLOG, "4096", "8192")]);
        kernel.undo();
        assert_eq!(kernel.get(BACKLOG), "128");
        // Another program has changed it in between.
        kernel.apply(&[change(BACKLOG, "128", "4096")]);
        kernel.set(BACKLOG, "1000");
        kernel.apply(&[change(BACKLOG, "1000", "4096")]);
        kernel.undo();
        assert_eq!(kernel.get(BACKLOG), "1000");
    }

    #[test]
    fn value_of_another_program_is_left() {
        let kernel = FakeKernel::new(&[(BACKLOG, "128")]);
        kernel.apply(&[change(BACKLOG, "128", "4096")]);
        kernel.set(BACKLOG, "9999");
        let report = kernel.undo();
        assert_eq!(
            report.outcomes[0].failure.as_deref(),
            Some("not restored: another program has set it to 9999")
        );
        assert_eq!(kernel.get(BACKLOG), "9999");
        // The machine was restarted.
        kernel.apply(&[change(BACKLOG, "9999", "4096")]);
        kernel.set(BACKLOG, "9999");
        let report = kernel.undo();
        assert!(report.outcomes.is_empty() && !report.record.exists(), "{report:?}");
    }

    #[test]
    fn setting_that_cannot_be_written_is_reported_and_not_recorded() {
        let kernel = FakeKernel::new(&[(BACKLOG, "128")]);
        let report = kernel.apply(&[change(BACKLOG, "128", "4096"), change(COOKIES, "0", "1")]);
        assert!(!report.is_complete());
        assert_eq!(report.outcomes[0].failure, None);
        assert_eq!(report.outcomes[1].failure.as_deref(), Some("no such file or directory"));
        let record = fs::read_to_string(report.record).unwrap();
        assert!(record.contains(BACKLOG) && !record.contains(COOKIES), "{record}");
    }

    #[test]
    fn nothing_changes_without_a_record() {
        let kernel = FakeKernel::new(&[(BACKLOG, "128")]);
        fs::create_dir(kernel.state()).unwrap();
        fs::set_permissions(kernel.state(), Permissions::from_mode(0o700)).unwrap();
        fs::write(kernel.state().join("doctor-undo.json"), "damaged").unwrap();
        let error =
            apply_to(&kernel.settings, &[change(BACKLOG, "128", "4096")], &kernel.state()).unwrap_err();
        assert!(error.to_string().contains("doctor-undo.json: it is damaged"), "{error}");
        assert_eq!(kernel.get(BACKLOG), "128");
    }
}
