//! The state directory: account keys and certificates, which only the supervisor reads and writes.
//!
//! ```text
//! STATE/acme/                                          mode 0700
//!   acme-v02.api.letsencrypt.org-0123456789abcdef/     a directory, by its URL
//!     account.json                                     mode 0600
//!     example.org-0123456789abcdef/                    a set of names
//!       certificate.pem                                the private key and the chain, mode 0600
//! ```
//!
//! A file is replaced as a whole: written beside its name, synced, and renamed. Key and chain lie in one file, so that they always fit. A
//! file that is damaged is renamed, told, and never used.

use super::{
    certificate::{AcmeCertificateError, Certificate},
    message::{ACCOUNT_LEN_MAX, CHAIN_LEN_MAX, KEY_LEN_MAX},
};
use crate::{
    base::error::{UserError, reason},
    sys::access,
};
use rustix::process::geteuid;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// The state of one directory.
#[derive(Clone, Debug)]
pub(crate) struct AcmeStore {
    /// The folder of the directory.
    folder: PathBuf,
}

/// What a file of the store has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored<T> {
    /// There is none.
    Nothing,
    /// This.
    Found(T),
    /// Something else, for this reason. The file was set aside.
    Damaged(String),
}

/// Bytes of a file with a certificate, at most.
const CERTIFICATE_FILE_LEN_MAX: u64 = (CHAIN_LEN_MAX + KEY_LEN_MAX) as u64;

impl AcmeStore {
    /// Opens the store of a directory, and makes its folders.
    ///
    /// # Errors
    /// The state directory cannot be made or written to.
    pub(crate) fn open(state: &Path, directory_url: &str) -> Result<AcmeStore, UserError> {
        let folder = directory_folder(state, directory_url);
        make_folder(state, &folder).map_err(|error| state_error(state, &error))?;
        Ok(AcmeStore { folder })
    }

    /// Checks whether [`open`](AcmeStore::open) would succeed, without making a folder.
    ///
    /// # Errors
    /// Those of [`open`](AcmeStore::open).
    pub(crate) fn check(state: &Path) -> Result<(), UserError> {
        let checked = match fs::metadata(state) {
            Ok(_) => check_state(state).and_then(|()| match fs::symlink_metadata(state.join("acme")) {
                Ok(_) => {
                    check_private(&state.join("acme")).and_then(|_| access::may_change(&state.join("acme")))
                }
                Err(_) => access::may_change(state),
            }),
            Err(_) => access::may_create_all(state),
        };
        checked.map_err(|error| state_error(state, &error))
    }

    /// Reads the certificate of a set of names, and changes nothing: makes no folder, and sets no file aside.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(crate) fn find(
        state: &Path,
        directory_url: &str,
        names: &[String],
    ) -> io::Result<Option<Certificate>> {
        let folder = directory_folder(state, directory_url);
        let path = AcmeStore { folder }.certificate_file(names);
        match read_file(&path, CERTIFICATE_FILE_LEN_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(text) => Certificate::from_pem(&text, &text, names)
                .map(Some)
                .map_err(|error: AcmeCertificateError| io::Error::other(error.to_string())),
        }
    }

    /// Reads the credentials of the account. They belong to this directory.
    pub(crate) fn account(&self, directory_url: &str) -> Stored<String> {
        self.read(&self.account_file(), ACCOUNT_LEN_MAX as u64, |text| {
            #[derive(serde::Deserialize)]
            struct StoredAccount {
                directory: String,
            }
            let account: StoredAccount = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            match account.directory == directory_url {
                true => Ok(text),
                false => Err("it is of another directory".to_owned()),
            }
        })
    }

    /// Stores the credentials of the account.
    ///
    /// # Errors
    /// The disk is full or read-only.
    pub(crate) fn set_account(&self, credentials: &str) -> io::Result<()> {
        replace(&self.account_file(), credentials.as_bytes())
    }

    /// Sets the account aside.
    pub(crate) fn forget_account(&self) {
        set_aside(&self.account_file());
    }

    /// Reads the certificate of a set of names.
    pub(crate) fn certificate(&self, names: &[String]) -> Stored<Certificate> {
        self.read(&self.certificate_file(names), CERTIFICATE_FILE_LEN_MAX, |text| {
            Certificate::from_pem(&text, &text, names)
                .map_err(|error: AcmeCertificateError| error.to_string())
        })
    }

    /// Stores a certificate.
    ///
    /// # Errors
    /// The disk is full or read-only.
    pub(crate) fn set_certificate(&self, names: &[String], certificate: &Certificate) -> io::Result<()> {
        let file = self.certificate_file(names);
        if let Some(folder) = file.parent() {
            private_folder(folder)?;
        }
        replace(&file, format!("{}{}", certificate.key_pem(), certificate.chain_pem()).as_bytes())
    }

    /// Returns the names that the files of an account and a certificate have while they are written.
    #[cfg(test)]
    pub(super) fn temporary_files(&self, names: &[String]) -> [PathBuf; 2] {
        [self.account_file(), self.certificate_file(names)].map(|file| temporary(&file))
    }

    fn account_file(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    fn certificate_file(&self, names: &[String]) -> PathBuf {
        let first = names.first().map_or("", String::as_str).replace('*', "_");
        self.folder.join(folder_name(&first, &names.join(","))).join("certificate.pem")
    }

    fn read<T>(
        &self,
        path: &Path,
        len_max: u64,
        parse: impl FnOnce(String) -> Result<T, String>,
    ) -> Stored<T> {
        let text = match read_file(path, len_max) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Stored::Nothing,
            Err(error) => return self.damaged(path, &reason(&error)),
        };
        match parse(text) {
            Ok(value) => Stored::Found(value),
            Err(why) => self.damaged(path, &why),
        }
    }

    fn damaged<T>(&self, path: &Path, why: &str) -> Stored<T> {
        let why = format!("{}: {}; it is set aside", path.printable(), why.printable());
        set_aside(path);
        Stored::Damaged(why)
    }
}

/// Returns the folder of a directory.
fn directory_folder(state: &Path, directory_url: &str) -> PathBuf {
    let host = directory_url.split_once("://").map_or(directory_url, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    state.join("acme").join(folder_name(host, directory_url))
}

/// Returns the state directory: the configured one, that of systemd, or the usual one of the user.
pub(crate) fn state_directory(configured: Option<&Path>, is_root: bool) -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").map(|home| home.join(".local/state"));
    match configured {
        Some(path) => path.to_owned(),
        // systemd.exec(5): several are separated by colons.
        None => match variable("STATE_DIRECTORY") {
            Some(value) => PathBuf::from(value.to_string_lossy().split(':').next().unwrap_or_default()),
            None if is_root => PathBuf::from("/var/lib/tarpon"),
            None => variable("XDG_STATE_HOME").or_else(home).unwrap_or_default().join("tarpon"),
        },
    }
}

/// Returns the name of a folder: readable, and different for different keys.
fn folder_name(readable: &str, key: &str) -> String {
    // Room for the hash within the 255 bytes of a name.
    let readable: String = readable
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || ".-_".contains(char) { char } else { '_' })
        .take(200)
        .collect();
    format!("{}-{:016x}", readable.trim_start_matches('.'), hash(key.as_bytes()))
}

/// FNV-1a. It only names folders: what a file has is compared with what it should have.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Makes the state directory, and in it the folder of a directory.
fn make_folder(state: &Path, folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    check_state(state)?;
    private_folder(&state.join("acme"))?;
    private_folder(folder)
}

/// Checks that no other user can replace what is in the state directory.
fn check_state(state: &Path) -> io::Result<()> {
    let metadata = File::open(state)?.metadata()?;
    // In a directory with the sticky bit, such as /tmp, other users can rename nothing of this one.
    let is_shared = metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0;
    let is_trusted = [0, geteuid().as_raw()].contains(&metadata.uid());
    if is_shared || !is_trusted {
        return Err(io::Error::other("other users can replace what is in it"));
    }
    Ok(())
}

fn state_error(state: &Path, error: &io::Error) -> UserError {
    UserError::new(
        format_args!("cannot use the state directory {}", state.printable()),
        reason(error),
        "make it writable for the user that starts tarpon, or name another with --state-directory DIR",
    )
    .about("state-directory")
}

/// Makes a folder that only this user may read, or makes one so that exists.
fn private_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check_private(path)?.set_permissions(fs::Permissions::from_mode(0o700))
}

/// Opens a folder of this user.
fn check_private(path: &Path) -> io::Result<File> {
    // A link may lead to a folder of somebody else.
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let folder =
        opened.map_err(|error| io::Error::other(format!("{}: {}", path.printable(), reason(&error))))?;
    if folder.metadata()?.uid() != geteuid().as_raw() {
        return Err(io::Error::other(format!("{} belongs to another user", path.printable())));
    }
    Ok(folder)
}

fn read_file(path: &Path, len_max: u64) -> io::Result<String> {
    // Without waiting for the writer of a FIFO, and without following a link.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > len_max {
        return Err(io::Error::other("it is too long"));
    }
    let mut text = String::new();
    file.take(len_max).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the name of a file while it is written.
fn temporary(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Replaces a file: after a crash it has the former content or the new one.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = temporary(path);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Renames a file that is not used any more. One that was set aside before is replaced.
fn set_aside(path: &Path) {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    // If it fails, the file is set aside at the next start, or replaced.
    let _ = fs::rename(path, name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::acme::certificate::testing;

    const URL: &str = "https://ca.example/directory";

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("a file").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_stored_is_read_again_and_private() {
        let state = tempfile::tempdir().unwrap();
        let names = ["*.a.example".to_owned(), "a.example".to_owned()];
        let store = AcmeStore::open(state.path(), URL).unwrap();
        assert_eq!((store.account(URL), store.certificate(&names)), (Stored::Nothing, Stored::Nothing));
        let (account, certificate) = (format!(r#"{{"directory":"{URL}"}}"#), testing::certificate(&names));
        for _ in 0..2 {
            store.set_account(&account).unwrap();
            store.set_certificate(&names, &certificate).unwrap();
        }
        let store = AcmeStore::open(state.path(), URL).unwrap();
        assert_eq!(store.account(URL), Stored::Found(account));
        assert_eq!(store.certificate(&names), Stored::Found(certificate.clone()));
        assert_eq!(AcmeStore::find(state.path(), URL, &names).unwrap(), Some(certificate));
        assert_eq!(AcmeStore::find(state.path(), URL, &names[..1]).unwrap(), None, "another set");
        let other = AcmeStore::open(state.path(), "https://ca.example/other").unwrap();
        assert_eq!((other.account(URL), other.certificate(&names)), (Stored::Nothing, Stored::Nothing));
        assert_eq!(store.certificate(&names[..1]), Stored::Nothing, "another set");
        let (account, certificate) = (store.account_file(), store.certificate_file(&names));
        assert_eq!([&*account, &*certificate].map(mode), [0o600; 2]);
        let folders =
            [state.path().join("acme"), store.folder.clone(), certificate.parent().unwrap().to_owned()];
        assert_eq!(folders.each_ref().map(|folder| mode(folder)), [0o700; 3]);
    }

    #[test]
    fn damaged_files_are_told_and_set_aside() {
        let names = ["a.example".to_owned()];
        let good = testing::certificate(&names);
        let (key, chain) = (good.key_pem(), good.chain_pem());
        let other = testing::certificate(&["b.example".to_owned()]);
        #[rustfmt::skip]
        let cases = [
            ("empty",              String::new()),
            ("half",               format!("{key}{}", &chain[..chain.len() / 2])),
            ("no key",             chain.to_owned()),
            ("no chain",           key.to_owned()),
            ("another key",        format!("{}{chain}", other.key_pem())),
            ("other names",        format!("{}{}", other.key_pem(), other.chain_pem())),
            ("too long",           format!("{key}{chain}{}", "\n".repeat(CERTIFICATE_FILE_LEN_MAX as usize))),
            ("nonsense",           "\u{0}\u{1}".to_owned()),
        ];
        for (name, content) in cases {
            let state = tempfile::tempdir().unwrap();
            let store = AcmeStore::open(state.path(), URL).unwrap();
            store.set_certificate(&names, &good).unwrap();
            let file = store.certificate_file(&names);
            fs::write(&file, content).unwrap();
            let Stored::Damaged(why) = store.certificate(&names) else { panic!("{name}") };
            assert!(why.contains("certificate.pem: ") && why.ends_with("; it is set aside"), "{name}: {why}");
            assert_eq!(store.certificate(&names), Stored::Nothing, "{name}");
            assert!(file.with_extension("pem.damaged").exists(), "{name}");
        }
        let state = tempfile::tempdir().unwrap();
        let store = AcmeStore::open(state.path(), URL).unwrap();
        for account in ["", "{}", "nonsense", r#"{"directory":"https://other.example/"}"#] {
            store.set_account(account).unwrap();
            assert!(matches!(store.account(URL), Stored::Damaged(_)), "{account}");
        }
        // A link leads where another user may write.
        std::os::unix::fs::symlink("/etc/passwd", store.account_file()).unwrap();
        assert!(matches!(store.account(URL), Stored::Damaged(_)));
    }

    #[test]
    fn state_directory_that_others_control_is_an_error_with_a_hint() {
        use std::os::unix::fs::{chown, symlink};
        let set_mode =
            |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let other = 54_321;
        let is_root = geteuid().is_root();
        type Prepare<'a> = &'a dyn Fn(&Path);
        #[rustfmt::skip]
        let cases: &[(&str, bool, Prepare<'_>, Option<&str>)] = &[
            // case                     as root  state directory                                                      error
            ("of this user",            false, &|_| (),                                                               None),
            ("of others to read",       false, &|state| set_mode(state, 0o755),                                       None),
            ("of others to write",      false, &|state| set_mode(state, 0o777),                                       Some("other users can replace what is in it")),
            ("of a group to write",     false, &|state| set_mode(state, 0o775),                                       Some("other users can replace what is in it")),
            ("with the sticky bit",     false, &|state| set_mode(state, 0o1777),                                      None),
            ("of another user",         true,  &|state| chown(state, Some(other), None).unwrap(),                     Some("other users can replace what is in it")),
            ("a link in it",            false, &|state| symlink("/tmp", state.join("acme")).unwrap(),                 Some("acme: ")),
            ("a file in it",            false, &|state| fs::write(state.join("acme"), "").unwrap(),                   Some("acme: ")),
            ("another's folder in it",  true,  &|state| {
                fs::create_dir(state.join("acme")).unwrap();
                chown(state.join("acme"), Some(other), None).unwrap();
            },                                                                                                        Some("belongs to another user")),
            ("an open folder in it",    false, &|state| {
                fs::create_dir(state.join("acme")).unwrap();
                set_mode(&state.join("acme"), 0o777);
            },                                                                                                        None),
        ];
        let before = mode(Path::new("/tmp"));
        for (name, needs_root, prepare, want) in cases {
            if *needs_root && !is_root {
                continue;
            }
            let state = tempfile::tempdir().unwrap();
            prepare(state.path());
            let error = AcmeStore::open(state.path(), URL).err().map(|error| error.to_string());
            match (&error, want) {
                (None, None) => assert_eq!(mode(&state.path().join("acme")), 0o700, "{name}"),
                (Some(error), Some(want)) => {
                    assert!(error.contains(want) && error.contains("--state-directory"), "{name}: {error}")
                }
                _ => panic!("{name}: {error:?}"),
            }
        }
        assert_eq!(mode(Path::new("/tmp")), before);
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = AcmeStore::open(file.path(), URL).unwrap_err().to_string();
        assert!(error.contains("--state-directory"), "{error}");
    }
}
