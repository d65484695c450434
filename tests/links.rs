//! Symbolic links that lead out of a site, into directories that the configuration names.

use crate::common::{
    client::{CONNECT, TestClient},
    program::{RunningProgram, serve, tarpon, without_user_change},
    readable_dir, wait_for, write_files,
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Directories with links as those of Debian's python3-doc: relative and absolute, to files and directories, in chains.
struct Share {
    dir: TempDir,
}

impl Share {
    fn new() -> Share {
        let dir = readable_dir();
        write_files(
            dir.path(),
            &[
                ("doc/python3.11/html/index.html", "documentation"),
                ("doc/python3.11/html/_static/own.js", "own"),
                ("doc/python3.11/ACKS", "thanks"),
                ("doc/python3.11-doc/README", "readme"),
                ("doc/python3-doc/README", "readme"),
                ("javascript/jquery/jquery.js", "jquery"),
                ("nodejs/underscore/dist/underscore.js", "underscore"),
                ("secret/key", "secret"),
            ],
        );
        let share = Share { dir };
        let absolute = |path: &str| share.at(path).to_str().expect("text").to_owned();
        let links = [
            ("doc/python3-doc/html", "../python3.11-doc/html".to_owned()),
            ("doc/python3.11-doc/html", "../python3.11/html".to_owned()),
            ("doc/python3.11/html/_static/jquery.js", "../../../../javascript/jquery/jquery.js".to_owned()),
            ("doc/python3.11/html/_static/underscore.js", absolute("javascript/underscore/underscore.js")),
            ("doc/python3.11/html/_static/jquery", absolute("javascript/jquery")),
            ("doc/python3.11/html/key", "../../../secret/key".to_owned()),
            ("javascript/underscore", "../nodejs/underscore/dist".to_owned()),
        ];
        for (link, target) in links {
            symlink(target, share.at(link)).expect("a link");
        }
        share
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Returns the options that allow all links but the one to the secret.
    fn options(&self) -> Vec<String> {
        let trees = ["doc/python3.11", "doc/python3.11-doc", "javascript", "nodejs"];
        trees
            .iter()
            .flat_map(|tree| ["--follow-links".to_owned(), self.at(tree).display().to_string()])
            .collect()
    }
}

const SERVED: [(&str, &str); 6] = [
    ("/README", "readme"),
    ("/html/", "documentation"),
    ("/html/_static/own.js", "own"),
    ("/html/_static/jquery.js", "jquery"),
    ("/html/_static/jquery/jquery.js", "jquery"),
    ("/html/_static/underscore.js", "underscore"),
];

fn text(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

/// As root, the builder opens the trees with root's rights and then is another user; otherwise it opens them by their paths.
#[test]
fn links_lead_into_named_trees_only_and_changes_there_are_served() {
    for is_other_user in [true, false] {
        let share = Share::new();
        let site = share.at("doc/python3-doc");
        let options = share.options();
        let more = if is_other_user { &[][..] } else { without_user_change() };
        let program = RunningProgram::start_ready(serve(&site, &[&text(&options), more].concat()));
        let get = |path: &str| {
            let response = TestClient::connect(program.address()).get(path);
            (response.status, String::from_utf8(response.content).expect("text"))
        };
        for (path, content) in SERVED {
            assert_eq!(get(path), (200, content.to_owned()), "{path}");
            let response = TestClient::connect_http2(program.address()).get(path);
            assert_eq!((response.status, &response.content[..]), (200, content.as_bytes()), "{path}");
        }
        for path in ["/html/key", "/ACKS", "/html/ACKS"] {
            assert_eq!(get(path).0, 404, "{path}");
        }
        let warning = format!(
            "warning: skipped 1 symbolic link out of the site: html/key, which leads to {}; --follow-links {} would allow it\n",
            share.at("secret/key").display(),
            share.at("secret").display()
        );
        assert_eq!(program.err(), warning);

        // A file in a tree changes, and another tree takes the place of one.
        fs::write(share.at("nodejs/underscore/dist/underscore.js"), "changed").expect("a file");
        wait_for("the change", || (get("/html/_static/underscore.js").1 == "changed").then_some(()));
        write_files(share.dir.path(), &[("next/jquery/jquery.js", "next")]);
        symlink("../nodejs/underscore/dist", share.at("next/underscore")).expect("a link");
        fs::rename(share.at("javascript"), share.at("former")).expect("renamed");
        fs::rename(share.at("next"), share.at("javascript")).expect("renamed");
        wait_for("the next tree", || (get("/html/_static/jquery.js").1 == "next").then_some(()));
        assert_eq!(get("/html/_static/underscore.js").1, "changed");

        // A directory that is new, beside one that the server may not read.
        write_files(share.dir.path(), &[("nodejs/new/deep/first.js", "first"), ("nodejs/closed/x", "")]);
        fs::set_permissions(share.at("nodejs/closed"), Permissions::from_mode(0o700)).expect("a directory");
        symlink("../../../../nodejs/new/deep", share.at("doc/python3.11/html/_static/new")).expect("a link");
        wait_for("the new directory", || (get("/html/_static/new/first.js").1 == "first").then_some(()));
        fs::write(share.at("nodejs/new/deep/first.js"), "second").expect("a file");
        wait_for("its change", || (get("/html/_static/new/first.js").1 == "second").then_some(()));
        assert!(!program.err().contains("checking every"), "{}", program.err());

        // Without one of its trees, the site does not change.
        fs::rename(share.at("javascript"), share.at("away")).expect("renamed");
        fs::write(share.at("doc/python3-doc/README"), "second").expect("a file");
        if is_other_user {
            wait_for("the message", || {
                program.err().contains("it does not exist; name an existing directory").then_some(())
            });
        }
        assert_eq!(get("/html/_static/jquery.js").1, "next");
        fs::rename(share.at("away"), share.at("javascript")).expect("renamed");
        wait_for("the site", || (get("/README").1 == "second").then_some(()));
        wait_for("the tree", || (get("/html/_static/jquery.js").1 == "next").then_some(()));

        // Another site is renamed into place while a tree is missing: it is served once the tree is back.
        fs::rename(share.at("javascript"), share.at("away")).expect("renamed");
        write_files(share.dir.path(), &[("doc/third/README", "third")]);
        let before = program.err().len();
        fs::rename(&site, share.at("doc/second")).expect("renamed");
        fs::rename(share.at("doc/third"), &site).expect("renamed");
        wait_for("the message", || {
            program.err()[before..].contains("it does not exist; name an existing").then_some(())
        });
        assert_eq!(get("/README").1, "second");
        fs::rename(share.at("away"), share.at("javascript")).expect("renamed");
        wait_for("the third site", || (get("/README").1 == "third").then_some(()));
    }
}

#[test]
fn link_in_a_tree_that_leads_to_a_secret_is_not_followed_after_a_change() {
    let share = Share::new();
    let options = share.options();
    let program = RunningProgram::start_ready(serve(&share.at("doc/python3-doc"), &text(&options)));
    let get = |path: &str| TestClient::connect(program.address()).get(path);
    fs::remove_file(share.at("javascript/jquery/jquery.js")).expect("a file");
    symlink("../../secret/key", share.at("javascript/jquery/jquery.js")).expect("a link");
    wait_for("the change", || (get("/html/_static/jquery.js").status == 404).then_some(()));
    assert_eq!(get("/html/_static/jquery/jquery.js").status, 404);
}

#[test]
fn unusable_tree_for_links_fails_the_start_with_a_hint() {
    let share = Share::new();
    fs::create_dir(share.at("open")).expect("a directory");
    fs::set_permissions(share.at("open"), Permissions::from_mode(0o777)).expect("a directory");
    fs::write(share.at("site.tar"), [0; 1024]).expect("a file");
    let (site, archive) = (share.at("doc/python3-doc"), share.at("site.tar"));
    let cases: [(&Path, &str, &str); 4] = [
        (&site, "open", "other users may change DIR/open ("),
        (&site, "nothing", "it does not exist; name an existing directory, or leave it out of follow-links"),
        (&site, "secret/key", "it is not a directory; name an existing directory"),
        (&archive, "javascript", "it is an archive, and only a directory can have such links"),
    ];
    for (site, tree, why) in cases {
        let tree = share.at(tree).display().to_string();
        let why = why.replace("DIR", share.dir.path().to_str().expect("text"));
        let ended = RunningProgram::run(serve(site, &["--follow-links", &tree]));
        assert_eq!(ended.status.code(), Some(1), "{tree}: {ended:?}");
        assert!(ended.error_line().contains(&why), "{tree}: {ended:?}");
        let out = share.at("out.tar");
        let pack = [
            "pack".as_ref(),
            site.as_os_str(),
            "-o".as_ref(),
            out.as_os_str(),
            "--follow-links".as_ref(),
            tree.as_ref(),
        ];
        let ended = RunningProgram::run(tarpon(pack));
        assert!(ended.status.code() == Some(1) && ended.error_line().contains(&why), "{tree}: {ended:?}");
    }
}

#[test]
fn packed_site_has_the_targets_of_links() {
    let share = Share::new();
    let (site, archive) = (share.at("doc/python3-doc"), share.at("site.tar"));
    let mut command = tarpon(["pack".as_ref(), site.as_os_str(), "-o".as_ref(), archive.as_os_str()]);
    command.args(share.options());
    let ended = RunningProgram::run(command);
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.err.contains("skipped 1 symbolic link out of the site: html/key"), "{ended:?}");
    let program = RunningProgram::start_ready(serve(&archive, &[]));
    for (version, connect) in CONNECT {
        let mut client = connect(program.address());
        for (path, content) in SERVED {
            let response = client.get(path);
            assert_eq!(
                (response.status, &response.content[..]),
                (200, content.as_bytes()),
                "{version}, {path}"
            );
        }
    }
    // An archive within a tree would become part of the next one.
    let inside = share.at("javascript/site.tar");
    let mut command = tarpon(["pack".as_ref(), site.as_os_str(), "-o".as_ref(), inside.as_os_str()]);
    command.args(share.options());
    assert!(RunningProgram::run(command).error_line().contains("the target is inside the site"));
}
