//! Names in messages: a name from a file, a command line or a client reaches the terminal as text within one line.
//!
//! The tests send each message to a pseudo-terminal, with names that hold control sequences.

use crate::common::{
    client::TestClient,
    program::{RunningProgram, serve, tarpon, unprivileged, without_user_change},
    readable_dir, wait_for, write_files,
};
use rustix::process::Signal;
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    process::Command,
};
use tarpon::config::{self, CliFlags};

/// What the name holds, the name, and what a message shows. A line that begins with FORGED comes from a name.
const NAMES: &[(&str, &[u8], &str)] = &[
    ("colours, titles, keys", b"\x1b[31m\x1b[8m\x1b]0;t\x07\x08\x7f\\", r"\x1b[31m\x1b[8m\x1b]0;t\x07\x08\x7f\\"),
    ("line breaks", b"a\nFORGED 1\r\nFORGED 2\rFORGED 3\tb", r"a\nFORGED 1\r\nFORGED 2\rFORGED 3\tb"),
    (
        "visible and invisible characters",
        "f\u{fc}r \u{6f22} \u{1f980} \u{9b}2J\u{85}FORGED \u{202e}fdp.\u{2066}\u{200f}\u{2028}FORGED \u{200b}\u{feff}".as_bytes(),
        "f\u{fc}r \u{6f22} \u{1f980} \\u{9b}2J\\u{85}FORGED \\u{202e}fdp.\\u{2066}\\u{200f}\\u{2028}FORGED \\u{200b}\\u{feff}",
    ),
    ("not UTF-8", b"\x9b2J\xff\xc3(\xe2\x80", r"\x9b2J\xff\xc3(\xe2\x80"),
];

/// The longest name that leaves room for a prefix and an extension.
const LONG: [u8; 200] = [0x1b; 200];

/// Returns all names, the long one last.
fn names() -> impl Iterator<Item = (&'static OsStr, String)> {
    let listed = NAMES.iter().map(|(_, name, shown)| (*name, (*shown).to_owned()));
    let all = listed.chain([(&LONG[..], r"\x1b".repeat(LONG.len()))]);
    all.map(|(name, shown)| (OsStr::from_bytes(name), shown))
}

/// Returns the names that are UTF-8.
fn texts() -> impl Iterator<Item = (&'static str, String)> {
    names().filter_map(|(name, shown)| Some((name.to_str()?, shown)))
}

#[test]
fn skipped_files_are_shown_in_one_line() {
    for (name, shown) in names() {
        let temp = readable_dir();
        let site = site_of_names(temp.path(), name);
        let archive = joined(temp.path(), name, ".tar");
        let mut pack = tarpon([OsStr::new("pack"), site.as_os_str()]);
        pack.args(["--effort", "fast", "-o"]).arg(&archive);
        let output = ended(pack);
        for what in [
            "dotfile: .",
            "dangling symbolic link: dangling ",
            "symbolic link out of the site: outside ",
            "FIFO, socket or device: socket ",
        ] {
            assert!(output.contains(&format!("skipped 1 {what}{shown}")), "{what}: {output}");
        }
        assert!(
            output.contains(&format!("/{shown}.tar: ")) && output.contains(&format!("/{shown}; took")),
            "{output}"
        );
        let server = RunningProgram::start_on_terminal(serve(&site, &[]));
        let output = wait_for("the banner", || Some(server.out()).filter(|output| output.contains("Ctrl-C")));
        assert!(output.contains(&format!("skipped 1 dotfile: .{shown}")), "{output}");
        let bold = format!("/{shown}\u{1b}[0m: ");
        assert!(output.contains(&bold), "{output}");
        checked(&output);
    }
}

#[test]
fn members_of_an_archive_are_shown_in_one_line() {
    for (name, shown) in names() {
        // A tar header has room for 100 bytes.
        if name.len() > 80 {
            continue;
        }
        let temp = readable_dir();
        let archive = joined(temp.path(), name, ".tar");
        let member = |before: &str| [before.as_bytes(), name.as_bytes()].concat();
        write_tar(
            &archive,
            &[(member("/abs "), b'0'), (member("../up "), b'0'), (b"bytes \xff".to_vec(), b'0')],
        );
        let server = RunningProgram::start_on_terminal(serve(&archive, &[]));
        let output = wait_for("the banner", || Some(server.out()).filter(|output| output.contains("Ctrl-C")));
        for what in [
            format!("absolute name: /abs {shown}"),
            format!(".. in its name: ../up {shown}"),
            r"not UTF-8: bytes \xff".to_owned(),
        ] {
            assert!(output.contains(&what), "{what}: {output}");
        }
        checked(&output);
        drop(server);
        if name.to_str().is_none() {
            // The server skips a member whose name is not UTF-8, whatever its type.
            continue;
        }
        // A sparse file of GNU tar.
        write_tar(&archive, &[(member("sparse "), b'S')]);
        for command in [serve(&archive, &[]), pack(&archive, &temp.path().join("out.tar"))] {
            let output = ended(command);
            assert!(
                output.contains(&format!("sparse {shown}")) && output.contains(&format!("/{shown}.tar")),
                "{output}"
            );
        }
    }
}

#[test]
fn an_error_is_shown_in_one_line() {
    for (name, shown) in names() {
        let temp = readable_dir();
        let (missing, nowhere) = (temp.path().join("missing").join(name), temp.path().join("missing"));
        let page = temp.path().join("site");
        write_files(&page, &[("index.html", "home")]);
        let no_archive = temp.path().join(name);
        fs::write(&no_archive, "no archive").expect("a file");
        let unix = |path: &Path| [OsStr::new("unix:"), path.as_os_str()].concat_all();
        let with = |option: &str, value: &OsStr| {
            let mut command = serve(&page, &[]);
            command.arg(option).arg(value);
            command
        };
        let words = |words: &[&OsStr]| tarpon(words.iter().copied());
        let text = OsStr::new;
        let socket = unix(&missing);
        let mut epoch = pack(&page, &temp.path().join("out.tar"));
        epoch.env("SOURCE_DATE_EPOCH", name);
        let unreadable = temp.path().join("unreadable");
        fs::create_dir(&unreadable).expect("a directory");
        write_files(&unreadable, &[(PathBuf::from(name), "secret")]);
        fs::set_permissions(unreadable.join(name), fs::Permissions::from_mode(0o000)).expect("our own");
        #[rustfmt::skip]
        let commands = [
            serve(&missing, &[]),
            serve(&no_archive, &[]),
            with("--prefix", name),
            with("--listen", &socket),
            with("--access-log", missing.join("log").as_os_str()),
            with("--user", name),
            words(&[text("serve"), page.as_os_str(), text("--idle-timeout"), name]),
            with("--engine", name),
            words(&[text("serve"), text("--config"), missing.as_os_str()]),
            unprivileged(&serve(&unreadable, &[&["--strict"], without_user_change()].concat())),
            unprivileged(&pack(&unreadable, &temp.path().join("out.tar"))),
            pack(&missing, &temp.path().join("out.tar")),
            pack(&no_archive, &temp.path().join("out.tar")),
            pack(&page, &missing),
            pack(&page, &page.join(name)),
            epoch,
            words(&[text("inspect"), missing.as_os_str()]),
            words(&[text("inspect"), no_archive.as_os_str()]),
            words(&[text("inspect"), no_archive.as_os_str(), name]),
            words(&[text("verify"), no_archive.as_os_str()]),
            words(&[text("verify"), no_archive.as_os_str(), text("--dictionary"), missing.as_os_str()]),
            words(&[text("release"), text("list"), missing.as_os_str()]),
            words(&[text("release"), text("activate"), nowhere.parent().expect("one above").as_os_str(), name]),
            words(&[text("status"), text("--admin"), &socket]),
            words(&[text("reload"), text("--admin"), &socket]),
            words(&[name]),
            words(&[text("config"), text("check"), text("--config"), no_archive.as_os_str()]),
        ];
        for command in commands {
            let (what, output) = (format!("{command:?}"), ended(command));
            let is_shown = output.contains(&shown);
            // The error about an argument that is not UTF-8 does not show the argument.
            let is_not_utf8 =
                name.to_str().is_none() && (output.contains("invalid UTF-8") || output.contains('\u{fffd}'));
            assert!(is_shown || is_not_utf8, "{what}: {output}");
        }
    }
}

#[test]
fn packed_sites_and_releases_are_shown_without_forged_lines() {
    for (name, shown) in names() {
        let temp = readable_dir();
        let site = site_of_names(temp.path(), name);
        write_files(&site, &[(joined(Path::new(""), name, ".html"), "<p>page".repeat(4000))]);
        let dir = temp.path().join("releases");
        fs::create_dir(&dir).expect("a directory");
        let archive = joined(&dir, name, ".tar");
        ended(pack(&site, &archive));
        let on = |words: &[&str], path: &Path| {
            let mut command = tarpon(words.iter().map(OsStr::new));
            command.arg(path);
            ended(command)
        };
        let listed = on(&["inspect"], &archive);
        assert!(listed.contains(&format!("/{shown}.html")), "{listed}");
        checked(&on(&["inspect", "--json"], &archive));
        let verified = on(&["verify"], &archive);
        assert!(verified.contains(&format!("/{shown}.tar")) && verified.contains("is valid"), "{verified}");
        let mut activate = tarpon(["release", "activate"].map(OsStr::new));
        activate.arg(&dir).arg(archive.file_name().expect("a name"));
        let activated = ended(activate);
        if activated.contains("is current") {
            assert!(activated.contains(&format!("{shown}.tar")), "{activated}");
            let list = on(&["release", "list"], &dir);
            assert!(list.contains(&format!("{shown}.tar")), "{list}");
        } else {
            // A line of the history holds neither control characters nor bytes that are not UTF-8.
            assert!(
                name.to_str().is_none() || name.to_string_lossy().contains(char::is_control),
                "{activated}"
            );
        }
        checked(&on(&["release", "rollback"], &dir));
        // After one byte of the content changes, `verify` names the file.
        let mut bytes = fs::read(&archive).expect("an archive");
        let at = bytes.windows(14).position(|window| window == b"<p>page<p>page").expect("the page");
        bytes[at + 3] ^= 1;
        fs::write(&archive, bytes).expect("an archive");
        let damaged = on(&["verify"], &archive);
        assert!(damaged.contains(&format!("/{shown}.html (identity)")), "{damaged}");
    }
}

#[test]
fn names_in_a_configuration_are_shown_without_forged_lines() {
    for (name, shown) in texts() {
        let temp = readable_dir();
        let file = joined(temp.path(), OsStr::new(name), ".toml");
        let on = |words: &[&str]| {
            let mut command = tarpon(words.iter().map(OsStr::new));
            // The site is the current directory if nothing names one.
            command.arg("--config").arg(&file).current_dir(temp.path());
            ended(command)
        };
        let quoted: String = name.chars().map(|char| format!("\\U{:08X}", u32::from(char))).collect();
        let place = format!("/{shown}.toml");
        let cases = [
            (format!("[server]\n\"{quoted}\" = 1\n"), format!("unknown option `{shown}`")),
            (format!("[\"{quoted}\"]\n"), format!("unknown section `{shown}`")),
            (
                format!("[[site]]\npath = \"{quoted}\"\n"),
                format!("{}/{shown}: it does not exist", temp.path().to_str().expect("text")),
            ),
            (format!("[[site]]\npath = \".\"\naccess-log = \"{quoted}/log\"\n"), shown.clone()),
            (format!("[[site]]\npath = \".\"\nhosts = [\"{quoted}\"]\n"), place.clone()),
            (format!("[[listener]]\naddress = \"unix:{quoted}/x\"\n"), shown.clone()),
            (
                format!("[[listener]]\naddress = \"unix:{quoted}\"\n").repeat(2),
                format!("{shown} occurs twice"),
            ),
            // Unquoted: TOML does not allow every character.
            (format!("[server]\n{name} = 1\nworkers = \"{name}\"\n"), place.clone()),
        ];
        for (text, want) in cases {
            fs::write(&file, &text).expect("a file");
            let output = on(&["config", "check"]);
            assert!(output.contains(&want) && output.contains(&place), "{text:?}: {output}");
        }
        fs::write(&file, format!("[[site]]\npath = \"{quoted}\"\nspa = true\n")).expect("a file");
        let output = on(&["config", "show"]);
        assert!(output.contains(&format!("/{shown} ")) && output.contains(&format!("{place}:3")), "{output}");
        // The configuration that `--toml` writes reads back as the same.
        let toml = temp.path().join("same.toml");
        let output = on(&["config", "show", "--toml"]);
        fs::write(&toml, output.replace("\r\n", "\n")).expect("a file");
        let text = fs::read_to_string(&toml).expect("text");
        let same = config::ConfigFile::new(toml, text);
        let settled = config::read(Some(&same), &CliFlags::default(), config::CommandKind::Serve);
        let path = temp.path().join(name);
        assert_eq!(settled.expect("a configuration").config.sites[0].source.path, path, "{}", same.text);
        write_files(&path, &[("index.html", "home")]);
        let output = on(&["config", "check"]);
        assert!(output.contains("is valid"), "{output}");
    }
}

#[test]
fn names_of_sites_are_shown_without_forged_lines() {
    for (name, shown) in texts() {
        let temp = readable_dir();
        let sites = ["one", "two"].map(|parent| {
            let parent = temp.path().join(parent);
            fs::create_dir(&parent).expect("a directory");
            site_of_names(&parent, OsStr::new(name))
        });
        let quoted: String = name.chars().map(|char| format!("\\U{:08X}", u32::from(char))).collect();
        let admin = temp.path().join("admin.sock");
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n[server]\nadmin = \"unix:{}\"\n[[site]]\npath = \"one/{quoted}\"\n\
             [[site]]\npath = \"two/{quoted}\"\nhosts = [\"two.example\"]\n",
            admin.to_str().expect("text")
        );
        let file = joined(temp.path(), OsStr::new(name), ".toml");
        for form in ["human", "json"] {
            fs::write(&file, &text).expect("a file");
            let mut command = tarpon([OsStr::new("serve"), OsStr::new("--config"), file.as_os_str()]);
            command.args(["--log-format", form]).args(without_user_change());
            let server = RunningProgram::start_on_terminal(command);
            let wait_for_output =
                |want: &str| wait_for(want, || Some(server.out()).filter(|output| output.contains(want)));
            let is_json = form == "json";
            wait_for_output(if is_json { "\"serving\"" } else { "Ctrl-C" });
            write_files(&sites[1], &[("new.html", "new")]);
            wait_for_output(if is_json { "\"site_reloaded\"" } else { "read the site " });
            // The answers of the admin listener.
            let ask = |words: &[&str]| {
                let mut command = tarpon(words.iter().map(OsStr::new));
                command.arg("--admin").arg([OsStr::new("unix:"), admin.as_os_str()].concat_all());
                ended(command)
            };
            assert!(ask(&["status"]).contains("two.example"));
            checked(&ask(&["status", "--json"]));
            fs::write(&file, format!("[server]\n\"{quoted}\" = 1\n")).expect("a file");
            let refused = ask(&["reload"]);
            assert!(refused.contains(&format!("unknown option `{shown}`")), "{refused}");
            wait_for_output("not reloaded");
            fs::write(&file, &text).expect("a file");
            assert!(ask(&["reload"]).contains("reloaded"));
            server.signal(Signal::TERM);
            let ended = server.wait();
            checked(&ended.out);
            let named = format!("/{}", if is_json { shown.replace('\\', r"\\") } else { shown.clone() });
            assert!(ended.out.contains(&format!("skipped 1 dotfile: .{}", &named[1..])), "{}", ended.out);
            assert!(ended.out.contains(&named), "{}", ended.out);
            if is_json {
                for line in ended.out.lines() {
                    serde_json::from_str::<serde_json::Value>(line)
                        .unwrap_or_else(|error| panic!("{error}: {line}"));
                }
            }
        }
    }
}

#[test]
fn names_from_a_client_are_shown_without_forged_lines() {
    let temp = readable_dir();
    write_files(temp.path(), &[("index.html", "home")]);
    for form in ["combined", "common", "json", "simple"] {
        let options = ["--access-log", "-", "--access-log-format", form, "--debug"];
        let server = RunningProgram::start_on_terminal(serve(temp.path(), &options));
        let address = wait_for("an address", || {
            let output = server.out();
            let (_, behind) = output.split_once("http://")?;
            output.contains("Ctrl-C").then(|| behind.split('/').next()?.parse().ok()).flatten()
        });
        let mut client = TestClient::connect(address);
        for (_, name, _) in NAMES {
            // The bytes of the name that a header can contain.
            let value: Vec<u8> = name.iter().copied().filter(|byte| !matches!(byte, 0..=31 | 127)).collect();
            let head = [
                b"GET /logged HTTP/1.1\r\nHost: a\r\nUser-Agent: ",
                &value[..],
                b"\r\nReferer: ",
                &value,
                b"\r\n\r\n",
            ];
            client.send(head.concat());
            client.response();
        }
        let count = || server.out().matches("/logged").count() >= NAMES.len();
        wait_for("the lines", || count().then_some(()));
        checked(&server.out());
    }
}

/// Joins words to one.
trait ConcatAll {
    fn concat_all(&self) -> OsString;
}

impl<const COUNT: usize> ConcatAll for [&OsStr; COUNT] {
    fn concat_all(&self) -> OsString {
        self.iter().copied().collect()
    }
}

/// Returns the path of a name in a directory, with `extension` appended to the name.
fn joined(dir: &Path, name: &OsStr, extension: &str) -> PathBuf {
    dir.join([name, OsStr::new(extension)].concat_all())
}

/// Makes a site of this name, with a page, and with files of this name that the program does not serve.
fn site_of_names(dir: &Path, name: &OsStr) -> PathBuf {
    let site = dir.join(name);
    let at = |before: &str| site.join([OsStr::new(before), name].concat_all());
    write_files(&site, &[("index.html", "home"), ("empty", "")]);
    fs::write(at("."), "hidden").expect("a file");
    symlink("nothing", at("dangling ")).expect("a link");
    symlink("/etc/passwd", at("outside ")).expect("a link");
    // The address of a socket is at most 108 bytes long.
    let made = dir.join("s");
    drop(UnixListener::bind(&made).expect("a socket"));
    fs::rename(made, at("socket ")).expect("another name");
    site
}

fn pack(site: &Path, target: &Path) -> Command {
    let mut command = tarpon([OsStr::new("pack"), site.as_os_str()]);
    command.args(["--effort", "fast", "-o"]).arg(target);
    command
}

/// Writes a tar archive of empty members with these names and types. POSIX.1-2017, pax, ustar.
fn write_tar(path: &Path, members: &[(Vec<u8>, u8)]) {
    let mut archive = Vec::new();
    for (name, kind) in members {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name);
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(b"00000000000\0");
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].copy_from_slice(b"        ");
        header[156] = *kind;
        header[257..265].copy_from_slice(b"ustar  \0");
        // The size of a sparse file as a reader sees it.
        header[483..495].copy_from_slice(b"00000000000\0");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
    }
    archive.resize(archive.len() + 1024, 0);
    fs::write(path, archive).expect("an archive");
}

/// Runs a program on a terminal until it exits, and returns its output without colours.
#[track_caller]
fn ended(command: Command) -> String {
    checked(&RunningProgram::start_on_terminal(command).wait().out)
}

/// Returns terminal output without the colours that the program uses. Checks that the output holds no other control sequence, and
/// no line that comes from a name. The terminal turns a newline into CR LF.
#[track_caller]
fn checked(output: &str) -> String {
    let mut plain = output.replace("\r\n", "\n");
    // A progress bar overwrites its line, and clears it at the end.
    if let Some((bars, rest)) = plain.rsplit_once("\r\u{1b}[2K") {
        for bar in bars.split("\r\u{1b}[2K") {
            let is_bar = ["reading ", "compressing ", "writing "].iter().any(|step| bar.starts_with(step));
            assert!(is_bar && !bar.contains(char::is_control), "{output:?}");
        }
        plain = rest.to_owned();
    }
    for colour in ["0", "1", "2", "4", "31", "32", "33", "36"] {
        plain = plain.replace(&format!("\u{1b}[{colour}m"), "");
    }
    let acts = |char: char| {
        let is_bidi = matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        char.is_control() && char != '\n' || is_bidi || char == '\u{feff}'
    };
    assert!(!plain.contains(acts), "{output:?}");
    assert!(!plain.lines().any(|line| line.starts_with("FORGED")), "{plain}");
    plain
}
