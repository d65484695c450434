//! `tarpon import`: what it makes of nginx.conf and Caddyfiles is valid, and its report names each directive that it leaves out.

use crate::common::{
    client::TestClient,
    port::ReservedPort,
    program::{ProgramExit, RunningProgram, serve_config, tarpon},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

fn run(dir: &Path, arguments: &[&str]) -> ProgramExit {
    let mut command = tarpon(arguments.iter().map(OsStr::new));
    command.current_dir(dir);
    RunningProgram::run(command)
}

/// Imports a text from a file in an empty directory.
fn imported(syntax: &str, file: &str, text: &str) -> (TempDir, ProgramExit) {
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join(file), text).expect("a file");
    let exit = run(dir.path(), &["import", syntax, file]);
    (dir, exit)
}

/// The reader of tarpon accepts the text.
fn check(dir: &Path, toml: &str) {
    fs::write(dir.join("tarpon.toml"), toml).expect("a file");
    let checked = run(dir, &["config", "check", "--offline", "tarpon.toml"]);
    assert!(checked.status.success(), "{checked:?}\n{toml}");
}

#[test]
fn configurations_like_those_of_public_projects_keep_their_snapshots() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let mut names: Vec<PathBuf> =
        fs::read_dir(&dir).expect("a directory").map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|end| end == "conf" || end == "Caddyfile"));
    names.sort();
    assert!(names.len() >= 7, "{names:?}");
    let scratch = TempDir::new().expect("a directory");
    for path in names {
        let file = path.file_name().unwrap().to_str().unwrap();
        let syntax = if file.ends_with(".conf") { "nginx" } else { "caddy" };
        let exit = run(&dir, &["import", syntax, file]);
        check(scratch.path(), &exit.out);
        // The last line of the report is the error that counts.
        let is_left_out = exit.err.contains(": left out: ");
        assert_eq!(exit.status.code(), Some(i32::from(is_left_out)), "{exit:?}");
        for (end, text) in [("toml", &exit.out), ("txt", &exit.err)] {
            let snapshot = path.with_extension(end);
            if env::var_os("RENEW").is_some() {
                fs::write(&snapshot, text).expect("a file");
            }
            let want = fs::read_to_string(&snapshot).unwrap_or_default();
            assert!(*text == want, "{snapshot:?} differs; RENEW=1 writes it:\n{text}");
        }
    }
}

#[test]
fn output_is_a_new_file() {
    let (dir, exit) = imported("nginx", "a.conf", "server { root /srv; }");
    assert!(exit.status.success() && exit.err.is_empty(), "{exit:?}");
    let first = run(dir.path(), &["import", "nginx", "a.conf", "--output", "b.toml"]);
    assert!(first.status.success() && first.out.is_empty(), "{first:?}");
    assert_eq!(fs::read_to_string(dir.path().join("b.toml")).unwrap(), exit.out);
    let second = run(dir.path(), &["import", "nginx", "a.conf", "--output", "b.toml"]);
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(
        second.err,
        "tarpon: cannot write b.toml: file exists; name another file, or remove this one\n"
    );
    assert_eq!(run(dir.path(), &["import", "apache", "a.conf"]).status.code(), Some(2));
}

#[test]
fn broken_files_are_errors_with_their_place() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str)] = &[
        // syntax  the file                       the error
        ("nginx",  "",                            "cannot import a:1:1: it has no `server` block; "),
        ("nginx",  "server {\n  listen 80\n}",    "cannot import a:2:3: the directive `listen` has no end; end it with ;"),
        ("nginx",  "server {",                    "cannot import a:1:1: the block `server` has no end; "),
        ("nginx",  "include a;",                  "cannot import a:1:1: more than 16 files include each other in a row; does a file include itself?"),
        ("caddy",  "",                            "cannot import a:1:1: it has no site; "),
        ("caddy",  "a {\n",                       "cannot import a:1:1: the block `a` has no end; "),
        ("caddy",  "a {\n}\nb\n",                 "cannot import a:3:1: the address `b` has no block; "),
        ("caddy",  "import a",                    "cannot import a:1:1: more than 16 imports lie within each other; "),
        ("caddy",  "(s) {\nimport s\n}\na {\nimport s\n}\n", "cannot import a:2:1: more than 16 imports lie within each other; "),
    ];
    for (syntax, text, want) in cases {
        let (_dir, exit) = imported(syntax, "a", text);
        assert_eq!(exit.status.code(), Some(1), "{text:?}: {exit:?}");
        assert!(
            exit.err.starts_with(&format!("tarpon: {want}")) && exit.out.is_empty(),
            "{text:?}: {exit:?}"
        );
    }
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join("latin1"), b"server { root /\xe9; }").unwrap();
    for (name, why) in [
        ("none", "no such file or directory"),
        (".", "is a directory"),
        ("/dev/null", "it is not a regular file"),
        ("latin1", "it is not UTF-8"),
    ] {
        let exit = run(dir.path(), &["import", "nginx", name]);
        assert!(exit.status.code() == Some(1) && exit.err.contains(why), "{name}: {exit:?}");
    }
}

#[test]
fn snippets_that_multiply_are_refused() {
    let doubling: String =
        (1..16).map(|at| format!("(s{at}) {{\n{}}}\n", format!("import s{}\n", at - 1).repeat(8))).collect();
    let (_dir, exit) =
        imported("caddy", "a", &format!("(s0) {{\nencode\n}}\n{doubling}a {{\nimport s15\n}}\n"));
    assert!(
        exit.status.code() == Some(1) && exit.err.contains("there are more than 200000 directives"),
        "{exit:?}"
    );
}

#[test]
fn includes_are_files_beside_the_main_file_in_the_order_of_their_names() {
    let dir = TempDir::new().expect("a directory");
    for (name, text) in [
        ("nginx/nginx.conf", "http { include mime.types; include sites/*.conf; include none/*.conf; }"),
        ("nginx/sites/b.conf", "server { server_name b.example.org; root /b; include snippets/log; }"),
        ("nginx/sites/a.conf", "server { server_name a.example.org; root /a;\n  include gone; }"),
        ("nginx/sites/.c.conf", "server {"),
        ("nginx/snippets/log", "access_log off;"),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let exit = run(dir.path(), &["import", "nginx", "nginx/nginx.conf"]);
    let sections: Vec<_> = exit.out.lines().filter(|line| line.starts_with("[[site]]")).collect();
    assert_eq!(
        sections,
        ["[[site]]  # nginx/sites/a.conf:1", "[[site]]  # nginx/sites/b.conf:1"],
        "{exit:?}"
    );
    assert!(exit.out.contains("access-log = \"off\""), "{exit:?}");
    assert!(
        exit.err.starts_with("nginx/sites/a.conf:2: include: left out: there is no file gone; "),
        "{exit:?}"
    );
    // A file of one site: its includes lie beside the main file, one directory above.
    let exit = run(dir.path(), &["import", "nginx", "nginx/sites/b.conf"]);
    assert!(exit.status.success() && exit.out.contains("access-log = \"off\""), "{exit:?}");
}

#[test]
fn names_in_files_move_no_cursor() {
    let text = "server { server_name \"a\x1b[2Jb\" \u{202e}c; root \"/srv/\x1b]0;t\x07\"; add_header X-A \"b\x1b[2J\"; \x1b[31mx y; }";
    let (dir, exit) = imported("nginx", "a", text);
    for text in [&exit.out, &exit.err] {
        assert!(
            text.chars().all(|char| char == '\n' || !char.is_control() && char != '\u{202e}'),
            "{text:?}"
        );
    }
    check(dir.path(), &exit.out);
}

#[test]
fn directives_that_close_paths_never_open_them() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &[&str])] = &[
        // syntax  the file                                                                lines of tarpon.toml
        ("nginx",  "server { root /srv; location /a/ { auth_basic x; } }",                 &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; auth_basic x; location /a/ { } }",                 &["path = \"/\"", "path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; auth_basic x; location /a/ { auth_basic off; } }", &["path = \"/\"", "deny = [\"all\"]", "path = \"/a\"", "allow = [\"all\"]"]),
        ("nginx",  "server { root /srv; location /a/ { auth_request /b; } }",              &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; location /a/ { deny all; } }",                     &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; location /a/ { return 404; } }",                   &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; location /a/ { internal; alias /b; } }",           &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; location /a/ { allow 10.0.0.0/8; deny 10.1.0.0/16; deny all; } }", &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; listen 443 ssl; ssl_certificate c; ssl_certificate_key k; ssl_verify_client optional_no_ca; }", &["path = \"/\"", "deny = [\"all\"]"]),
        // A block within a closed one, and one beside it with the directive of the server.
        ("nginx",  "server { root /srv; location /a/ { deny all; location /a/b/ { } } }",  &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; deny all; location /a/ { } }",                     &["path = \"/\"", "deny = [\"all\"]"]),
        ("caddy",  "http://a {\nroot /srv\nbasic_auth {\nu h\n}\nhandle /a/* {\nfile_server\n}\n}", &["path = \"/\"", "deny = [\"all\"]"]),
        // Values that tarpon refuses.
        ("nginx",  "server { root /srv; location /a/ { deny 10.0.0.1/8; } }", &["path = \"/a\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; location /a/ { allow nobody; deny all; } }", &["path = \"/a\"", "deny = [\"all\"]"]),
        // One path is a prefix in tarpon, which must not open what lies below.
        ("nginx",  "server { root /srv; auth_basic x; location = / { auth_basic off; } }", &["path = \"/\"", "deny = [\"all\"]"]),
        ("nginx",  "server { root /srv; deny all; location = /a { allow all; } }", &["path = \"/\"", "deny = [\"all\"]"]),
        ("caddy",  "http://a {\nroot /srv\nbasic_auth /a/* {\nu h\n}\nfile_server\n}",     &["path = \"/a\"", "deny = [\"all\"]"]),
        ("caddy",  "http://a {\nroot /srv\nhandle /a/* {\nforward_auth b:1 {\nuri /c\n}\nfile_server\n}\n}", &["path = \"/a\"", "deny = [\"all\"]"]),
        ("caddy",  "http://a {\nroot /srv\n@x not remote_ip 10.0.0.0/8\nrespond @x 403\nfile_server\n}", &["path = \"/\"", "allow = [\"10.0.0.0/8\"]"]),
        ("caddy",  "http://a {\nroot /srv\nrespond /a/* 403\nfile_server\n}",              &["path = \"/a\"", "deny = [\"all\"]"]),
        ("caddy",  "http://a {\nroot /srv\n@x {\npath /a/*\nremote_ip 192.0.2.0/24\n}\nabort @x\n}", &["path = \"/a\"", "deny = [\"192.0.2.0/24\"]"]),
    ];
    for (syntax, text, want) in cases {
        let (dir, exit) = imported(syntax, "a", text);
        check(dir.path(), &exit.out);
        let (_, limits) = exit.out.split_once("[[site.limit]]").unwrap_or_else(|| panic!("{text}: {exit:?}"));
        let lines: Vec<_> = limits.lines().filter(|line| line.contains(" = ")).collect();
        let mut rest = lines.iter();
        assert!(want.iter().all(|want| rest.any(|line| line == want)), "{text}: {lines:?}");
        let opens = lines.iter().any(|line| line.starts_with("allow"))
            && !want.iter().any(|want| want.starts_with("allow"));
        assert!(!opens, "{text}: {lines:?}");
    }
}

/// Made by htpasswd with the least cost: "open sesame".
const HASH: &str = "$2y$04$zLWgRi5P4yFNnkDHB4v7buXQt.c8HCfFGrbjrO3WLGXpdk0zgwi0K";

/// Writes files of users and the text, in which DIR stands for the directory; imports it with `--output tarpon.toml`.
fn imported_with_users(syntax: &str, text: &str) -> (TempDir, ProgramExit, String) {
    let dir = TempDir::new().expect("a directory");
    for (name, users) in
        [("u", format!("ann:{HASH}\n")), ("v", format!("bob:{HASH}\n")), ("old", "ann:$apr1$a$b\n".into())]
    {
        fs::write(dir.path().join(name), users).expect("a file");
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o600)).expect("a mode");
    }
    let at = dir.path().canonicalize().expect("a path");
    let at = at.to_str().expect("UTF-8");
    fs::write(dir.path().join("a"), text.replace("DIR", at).replace("HASH", HASH)).expect("a file");
    let exit = run(dir.path(), &["import", syntax, "a", "--output", "tarpon.toml"]);
    let toml = fs::read_to_string(dir.path().join("tarpon.toml")).expect("a file");
    let checked = run(dir.path(), &["config", "check", "--offline", "tarpon.toml"]);
    assert!(checked.status.success(), "{checked:?}\n{toml}");
    let toml = toml.replace(&format!("{at}/"), "DIR/").replace(HASH, "HASH");
    (dir, exit, toml)
}

#[test]
fn users_are_carried_over_or_their_paths_stay_closed() {
    const NGINX: &str = "nginx";
    const CADDY: &str = "caddy";
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str, &str)] = &[
        // syntax  the file                                                                    the limits                                   part of the report
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; } }", "/a users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file DIR/u; } }", "/a users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; location /a { auth_basic x; auth_basic_user_file u; } }", "/a users-file=DIR/u realm=x", "location: differs: /a and the paths below it are protected, and not others that begin so, such as /ab"),
        (NGINX, "http { auth_basic x; auth_basic_user_file u; server { root /srv; } }",          "/ users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location /a/ { } }",  "/ users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location /a/ { auth_basic off; } }", "/ users-file=DIR/u realm=x, /a passwords=off", ""),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location = /a.txt { auth_basic off; } }", "/ users-file=DIR/u realm=x, /a.txt passwords=off", ""),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; } location /a/b/ { } }", "/a users-file=DIR/u realm=x, /a/b passwords=off", ""),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location /a/ { auth_basic_user_file v; } }", "/ users-file=DIR/u realm=x, /a users-file=DIR/v realm=x", ""),
        (NGINX, "server { root /srv; location /a/ { auth_basic $host; auth_basic_user_file u; } }", "/a users-file=DIR/u", "auth_basic: differs: its text depends on a variable"),
        (NGINX, "server { root /srv; location /a/ { auth_basic 'x\\\\y'; auth_basic_user_file u; } }", "/a users-file=DIR/u", "tarpon refuses the value"),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; alias /b/; } }", "/ users-file=DIR/u realm=x", ""),
        // Addresses count, too.
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; allow 10.0.0.0/8; deny all; } }", "/a allow=10.0.0.0/8 users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; allow 10.0.0.0/8; deny all; location /a/ { auth_basic x; auth_basic_user_file u; } }", "/ allow=10.0.0.0/8, /a allow=10.0.0.0/8 users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location /a/ { auth_basic off; allow 10.0.0.0/8; deny all; } }", "/ users-file=DIR/u realm=x, /a allow=10.0.0.0/8 passwords=off", ""),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file old; location /a/ { auth_basic off; allow 10.0.0.0/8; deny all; } }", "/ deny=all, /a allow=10.0.0.0/8", "old:1: it is a hash by MD5 (apr1)"),
        (NGINX, "server { root /srv; location /a/ { satisfy any; auth_basic x; auth_basic_user_file u; allow 10.0.0.0/8; deny all; } }", "/a deny=all", "satisfy: left out: in tarpon clients need an address and a password"),
        (NGINX, "server { root /srv; location /a/ { satisfy any; auth_basic x; auth_basic_user_file u; } }", "/a users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; location / { deny all; } location /a/ { auth_basic x; auth_basic_user_file u; } }", "/ deny=all, /a users-file=DIR/u realm=x allow=all", ""),
        // Paths of other users stay closed.
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file old; } }", "/a deny=all", "htpasswd -B"),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file none; } }", "/a deny=all", "cannot read"),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; } }",                           "/a deny=all", "it has no auth_basic_user_file"),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file /$host; } }", "/a deny=all", "depends on a variable"),
        (NGINX, "server { root /srv; location /a/ { auth_request /b; auth_basic x; auth_basic_user_file u; } }", "/a deny=all", "auth_request: left out"),
        (NGINX, "server { root /srv; location /a/ { auth_request /b; auth_basic off; } }",        "/a deny=all", "auth_request: left out"),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; } location = /a { auth_basic x; auth_basic_user_file v; } }", "/a deny=all", "another directive has other users"),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location = /a { auth_basic_user_file v; } }", "/ users-file=DIR/u realm=x, /a deny=all", "another directive has other users"),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location = / { auth_basic off; } }", "/ users-file=DIR/u realm=x", "auth_basic: left out: other paths would be open, too"),
        // Expressions count before prefixes, and are no prefixes.
        (NGINX, "server { root /srv; location ~ \\.zip$ { auth_basic x; auth_basic_user_file u; } location /a/ { } }", "/ users-file=DIR/u realm=x", "all paths of / need one"),
        (NGINX, "server { root /srv; location ~ \\.php$ { auth_basic x; auth_basic_user_file u; fastcgi_pass b:1; } }", "/ users-file=DIR/u realm=x", "all paths of / need one"),
        (NGINX, "server { root /srv; location ~ ^/a/b[0-9]+x { auth_basic x; auth_basic_user_file u; } location /a/b/ { } }", "/a users-file=DIR/u realm=x", "all paths of /a are protected"),
        (NGINX, "server { root /srv; location ~ ^/a/ { auth_basic x; auth_basic_user_file u; } location ^~ /a/b/ { } location /a/c/ { } }", "/a users-file=DIR/u realm=x, /a/b passwords=off", ""),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location ~* \\.css$ { expires max; } location /a/ { auth_basic off; } }", "/ users-file=DIR/u realm=x", "auth_basic: left out: other paths"),
        (NGINX, "server { root /srv; location / { try_files $uri @b; } location @b { auth_basic x; auth_basic_user_file u; proxy_pass http://c:1; } }", "/ deny=all", "@b has another access control"),
        (NGINX, "server { root /srv; auth_basic x; auth_basic_user_file u; location /a/ { auth_basic off; try_files $uri @b; } location @b { proxy_pass http://c:1; } }", "/ users-file=DIR/u realm=x, /a deny=all", "@b has another access control"),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; } location /b/ { try_files $uri /a/b.html; } }", "/a users-file=DIR/u realm=x", "location: left out: /a/b.html is for other clients than /b/*"),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; try_files $uri /a/b.html; } }", "/a users-file=DIR/u realm=x", ""),
        (NGINX, "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file u; limit_except GET { auth_basic off; } } }", "/a users-file=DIR/u realm=x", "limit_except: left out"),
        (NGINX, "server { root /srv; location ~ ^/a/ { deny all; } location /a/b/ { } }", "/a deny=all", ""),
        (NGINX, "server { root /srv; location /a/ { limit_except GET { auth_basic x; auth_basic_user_file u; } proxy_pass http://c:1; } }", "/a users-file=DIR/u realm=x", "limit_except: differs"),
        (CADDY, ":80 {\nroot /srv\nbasic_auth {\nann HASH\nbob HASH\n}\n}",                      "/ users=ann:HASH users=bob:HASH", ""),
        (CADDY, ":80 {\nroot /srv\nbasic_auth /a* {\nann HASH\n}\n}", "/a users=ann:HASH", "basic_auth: differs: /a and the paths below it"),
        (CADDY, ":80 {\nroot /srv\nbasicauth /a/* bcrypt \"Staff only\" {\nann HASH\n}\n}",       "/a users=ann:HASH realm=Staff only", ""),
        (CADDY, ":80 {\nroot /srv\nhandle /a/* {\nbasic_auth {\nann HASH\n}\nfile_server\n}\nhandle /a/b/* {\nfile_server\n}\n}", "/a users=ann:HASH, /a/b passwords=off", ""),
        (CADDY, ":80 {\nroot /srv\nhandle /a/* {\nbasic_auth {\nann HASH\n}\n}\nhandle {\nrespond 404\n}\n}", "/ deny=all, /a users=ann:HASH allow=all", ""),
        (CADDY, ":80 {\nroot /srv\n@x {\npath /a/*\nnot remote_ip 10.0.0.0/8\n}\nbasic_auth @x {\nann HASH\n}\n}", "/a users=ann:HASH", "clients from all addresses need a password"),
        (CADDY, ":80 {\nroot /srv\n@out not remote_ip 10.0.0.0/8\nrespond @out 403\nbasic_auth {\nann HASH\n}\n}", "/ allow=10.0.0.0/8 users=ann:HASH", ""),
        (CADDY, ":80 {\nroot /srv\nbasic_auth /a/* {\nann HASH\n}\nhandle_path /a/b/* {\nroot * /b\nfile_server\n}\n}", "/a users=ann:HASH, / users=ann:HASH", ""),
        (CADDY, ":80 {\nroot /srv\nhandle /a/* {\nbasic_auth *.zip {\nann HASH\n}\n}\n}",        "/a users=ann:HASH", ""),
        (CADDY, ":80 {\nroot /srv\n@x header X-A 1\nbasic_auth @x {\nann HASH\n}\n}",             "/ users=ann:HASH", "all paths of /* are protected"),
        (CADDY, ":80 {\nroot /srv\nbasic_auth {\nann HASH\n}\nbasic_auth /a/* {\nbob HASH\n}\n}", "/ users=ann:HASH, /a deny=all", "another directive has other users"),
        (CADDY, ":80 {\nroot /srv\nbasic_auth /a/* {\nann {env.SECRET}\n}\n}",                    "/a deny=all", "the user ann: it is no hash"),
        (CADDY, ":80 {\nroot /srv\nbasic_auth /a/* {\n}\n}",                                       "/a deny=all", "it has no user"),
        (CADDY, ":80 {\nroot /srv\nforward_auth /a/* b:1\n}",                                      "/a deny=all", "docs/passwords.md tell which clients and users"),
    ];
    for (syntax, text, want, report) in cases {
        let (_dir, exit, toml) = imported_with_users(syntax, text);
        let sections = toml.split("\n\n").filter(|section| section.starts_with("[[site.limit]]"));
        let limits: Vec<_> = sections.map(limits_in_short).collect();
        assert_eq!(limits.join(", "), *want, "{text}\n{toml}\n{exit:?}");
        assert!(exit.err.contains(report), "{text}: {exit:?}");
        assert!(!exit.err.contains("$2y$"), "{text}: {exit:?}");
        // Without a place in the report each directive has the same effect.
        assert!(!report.is_empty() || !exit.err.contains("auth"), "{text}: {exit:?}");
    }
}

/// Returns the options of a section in one line, without `path = `.
fn limits_in_short(section: &str) -> String {
    let options = section.lines().filter_map(|line| line.split_once(" = "));
    let words = options.flat_map(|(name, value)| {
        let values =
            value.trim_matches(['[', ']']).split(", ").map(|value| value.trim_matches('"').to_owned());
        values.map(move |value| if name == "path" { value } else { format!("{name}={value}") })
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn hashes_are_written_to_a_file_of_its_owner_alone() {
    let text = ":80 {\nroot /srv\nbasic_auth /a/* {\nann HASH\n}\n}";
    let (dir, exit, toml) = imported_with_users("caddy", text);
    let mode =
        |dir: &TempDir| fs::metadata(dir.path().join("tarpon.toml")).unwrap().permissions().mode() & 0o777;
    assert!(exit.status.success() && exit.err.is_empty() && toml.contains("ann:HASH"), "{exit:?}");
    assert_eq!(mode(&dir), 0o600);
    // Others may read a file to which a shell leads standard output.
    let (_dir, exit) = imported("caddy", "a", &text.replace("HASH", HASH));
    assert!(!exit.out.contains("ann") && exit.out.contains("deny = [\"all\"]"), "{exit:?}");
    assert!(exit.err.contains("basic_auth: left out: standard output has no hashes"), "{exit:?}");
    assert!(exit.err.contains("name a file with --output"), "{exit:?}");
    // Without hashes the umask decides.
    let (dir, ..) = imported_with_users("caddy", ":80 {\nroot /srv\n}");
    assert_ne!(mode(&dir) & 0o044, 0, "{:o}", mode(&dir));
}

#[test]
fn imported_users_get_through_and_no_other_client() {
    let texts = [
        (
            "nginx",
            "server { listen 127.0.0.1:PORT; root DIR/site; location /admin/ { auth_basic Staff; auth_basic_user_file u; } location /admin/open/ { auth_basic off; } location /old/ { auth_basic Staff; auth_basic_user_file old; } }",
        ),
        (
            "caddy",
            "http://127.0.0.1:PORT {\nbind 127.0.0.1\nroot DIR/site\nhandle /admin/* {\nbasic_auth bcrypt Staff {\nann HASH\n}\nfile_server\n}\nhandle /admin/open/* {\nfile_server\n}\nhandle /old/* {\nbasic_auth {\nann secret\n}\n}\nhandle {\nfile_server\n}\n}",
        ),
    ];
    for (syntax, text) in texts {
        let port = ReservedPort::new();
        let text = text.replace("PORT", &port.address.port().to_string());
        let (dir, exit, _) = imported_with_users(syntax, &text);
        for path in ["", "admin/", "admin/open/", "old/"] {
            let path = dir.path().join("site").join(path);
            fs::create_dir_all(&path).expect("a directory");
            fs::write(path.join("index.html"), "page").expect("a file");
        }
        let config = fs::read_to_string(dir.path().join("tarpon.toml")).expect("a file");
        let program = RunningProgram::start_ready(serve_config(&config, dir.path(), &[]));
        let mut client = TestClient::connect(program.address());
        let right = format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode("ann:open sesame"));
        let wrong = format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode("ann:open sesamf"));
        for (path, fields, want) in [
            ("/", "", 200),
            ("/admin/", "", 401),
            ("/admin/", &*wrong, 401),
            ("/admin/", &*right, 200),
            ("/admin/open/", "", 200),
            ("/old/", "", 403),
            ("/old/", &*right, 403),
        ] {
            let host = format!("127.0.0.1:{}", port.address.port());
            client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
            let response = client.response();
            assert_eq!(response.status, want, "{syntax}: {path}, {fields}\n{config}\n{exit:?}");
            let challenge = (want == 401).then_some("Basic realm=\"Staff\", charset=\"UTF-8\"");
            assert_eq!(response.field("WWW-Authenticate"), challenge, "{syntax}: {path}");
        }
    }
}

#[test]
fn directives_become_options() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &[&str])] = &[
        // syntax  the file                                                                   lines of tarpon.toml
        ("nginx",  "server { root /srv; index index.php a.htm; autoindex on; }",              &["index = [\"a.htm\"]", "listings = true"]),
        ("nginx",  "server { root /srv; listen 127.0.0.1:81; server_name .a.org; }",          &["address = \"127.0.0.1:81\"", "hosts = [\"a.org\", \"*.a.org\"]"]),
        ("nginx",  "server { root /srv; listen unix:/run/a.sock; }",                          &["address = \"unix:/run/a.sock\""]),
        ("nginx",  "server { listen 80; location / { root /srv; index index.html; } }",       &["path = \"/srv\""]),
        ("nginx",  "server { root /srv; location /a/ { root /b; } }",                         &["path = \"/b/a\"", "mount = \"/a\""]),
        ("nginx",  "server { root /srv; location / { try_files $uri $uri/ /index.html; } }",  &["spa = true"]),
        ("nginx",  "server { root /srv; error_page 404 =200 /index.html; }",                  &["spa = true"]),
        ("nginx",  "server { root /srv; location / { try_files $uri $uri.html =404; } }",     &["clean-urls = true"]),
        ("nginx",  "server { root /srv; error_page 500 502 /50x.html; }",                     &["status = 500", "status = 502", "path = \"/50x.html\""]),
        ("nginx",  "server { root /srv; location ~* \\.(css|js)$ { expires max; } }",         &["path = \"/*.css\"", "cache = \"max-age=315360000\"", "path = \"/*.js\""]),
        ("nginx",  "server { root /srv; location /a { proxy_pass http://b:1/; } }",           &["servers = [\"http://b:1\"]", "host = \"upstream\"", "proxy = [\"/a/=b-1/\"]"]),
        ("nginx",  "server { root /srv; location /a/ { proxy_set_header Host $host; rewrite ^/a/(.*)$ /$1 break; proxy_pass http://b:1; } }", &["proxy = [\"/a/=http://b:1/\"]"]),
        ("nginx",  "upstream u { least_conn; server b:1 weight=2; server c:1 backup; keepalive 9; } server { location / { proxy_pass http://u; proxy_read_timeout 2m; } }", &["name = \"u\"", "servers = [\"http://b:1 weight=2\", \"http://c:1 backup\"]", "balance = \"least-connections\"", "pool-size = 9", "response-timeout = \"120s\"", "proxy = [\"/=u\"]"]),
        ("nginx",  "server { root /srv; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } }", &["proxy = [\"*.php=fastcgi://127.0.0.1:9000\"]"]),
        ("nginx",  "server { root /srv; set $b http://c:1; location /a/ { proxy_set_header Host $host; proxy_pass $b; } }", &["proxy = [\"/a/=http://c:1\"]"]),
        // What one block closes stays open in another one beside it.
        ("nginx",  "server { root /srv; location / { return 404; } location /a/ { } }",       &["path = \"/\"", "deny = [\"all\"]", "path = \"/a\"", "allow = [\"all\"]"]),
        ("nginx",  "server { root /srv; location / { deny all; } location /a/ { alias /b/; } }", &["path = \"/\"", "deny = [\"all\"]", "path = \"/b\"", "mount = \"/a\""]),
        ("caddy",  ":80 {\nroot /srv\nhandle /a/* {\nfile_server\n}\nhandle {\nrespond 404\n}\n}", &["path = \"/\"", "deny = [\"all\"]", "path = \"/a\"", "allow = [\"all\"]"]),
        // Without its server, a script is no file.
        ("nginx",  "server { root /srv; location ~ \\.php$ { fastcgi_pass $php; } }",         &["proxy = [\"*.php=http://127.0.0.1:9\"]"]),
        ("nginx",  "server { root /srv; location ~ \\.inc$ { deny all; } }",                  &["proxy = [\"*.inc=http://127.0.0.1:9\"]"]),
        ("caddy",  ":80 {\nroot /srv\nfile_server {\nhide *.php\n}\n}",                       &["proxy = [\"*.php=http://127.0.0.1:9\"]"]),
        ("nginx",  "server { root /srv; rewrite ^/a/([^/]+)/b$ /c/$1 redirect; }",            &["from = \"/a/:p1/b\"", "to = \"/c/:p1\"", "status = 302"]),
        ("nginx",  "server { root /srv; location /a/ { return 301 https://b.org$request_uri; } }", &["from = \"/a/*\"", "to = \"https://b.org/a/:splat\""]),
        ("nginx",  "server { root /srv; listen 443 ssl; ssl_certificate c; ssl_certificate_key k; ssl_protocols TLSv1.3; }", &["address = \"tls:443\"", "tls-min-version = \"1.3\"", "tls-cert = [\"c\"]", "tls-key = [\"k\"]"]),
        ("nginx",  "server { listen 80; listen 443 ssl; server_name a.org; root /srv; ssl_certificate c; ssl_certificate_key k; if ($scheme = http) { return 301 https://$host$request_uri; } }", &["redirect-to-https = true"]),
        // As certbot writes it.
        ("nginx",  "server { server_name a.org; root /srv; listen 443 ssl; ssl_certificate c; ssl_certificate_key k; } server { if ($host = a.org) { return 301 https://$host$request_uri; } listen 80; server_name a.org; return 404; }", &["address = \"80\"", "address = \"tls:443\"", "redirect-to-https = true"]),
        ("nginx",  "http { limit_req_zone $binary_remote_addr zone=z:1m rate=5r/s; limit_conn_zone $binary_remote_addr zone=c:1m; limit_conn c 9; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; server { root /srv; location /a { limit_req zone=z burst=3 nodelay; limit_rate 200k; } } }", &["max-connections-per-ip = 9", "trusted-proxies = [\"10.0.0.0/8\"]", "client-address-from = \"x-forwarded-for\"", "request-rate = \"5/s\"", "request-burst = 4", "max-send-rate = \"200KiB\""]),
        ("nginx",  "server { root /srv; location /a/ { access_log off; } access_log /l combined; }", &["access-log = \"/l\"", "path = \"/a/*\"", "access-log = \"off\""]),
        ("nginx",  "server { listen 81; root /a; } server { listen 82; root /b; }",           &["path = \"/a\"", "listen = [\"81\"]", "path = \"/b\"", "listen = [\"82\"]"]),
        ("caddy",  "a.org, www.a.org {\nroot * /srv\nfile_server\n}",                         &["address = \"80\"", "address = \"tls:443\"", "domain = [\"a.org\", \"www.a.org\"]", "redirect-to-https = true"]),
        ("caddy",  "a.org {\ntls c k\nroot /srv\n}",                                          &["hosts = [\"a.org\"]", "tls-cert = [\"c\"]", "tls-key = [\"k\"]"]),
        ("caddy",  "localhost {\nroot /srv\nfile_server browse\n}",                           &["tls = \"self-signed\"", "hosts = [\"localhost\"]", "listings = true"]),
        ("caddy",  "{\nemail a@b.org\nhttp_port 8080\n}\nhttp://a.org {\nroot /srv\n}",       &["address = \"8080\"", "acme-email = \"a@b.org\""]),
        ("caddy",  "(s) {\nheader {args[0]} {args[1]}\n}\n:80 {\nroot /srv\nimport s X-A 1\n}", &["set = [\"X-A: 1\"]"]),
        ("caddy",  ":80 {\nroot /srv\ntry_files {path} /index.html\nfile_server\n}",          &["spa = true"]),
        ("caddy",  ":80 {\nroot /srv\ntry_files {path} {path}.html\nfile_server\n}",          &["clean-urls = true"]),
        ("caddy",  ":80 {\nroot /srv\nhandle_path /a/* {\nreverse_proxy b:1 c:1 {\nlb_policy least_conn\nhealth_uri /h\n}\n}\n}", &["servers = [\"http://b:1\", \"http://c:1\"]", "balance = \"least-connections\"", "health-path = \"/h\"", "proxy = [\"/a/=b-1/\"]"]),
        ("caddy",  ":80 {\nreverse_proxy :9000\n}",                                           &["proxy = [\"/=http://localhost:9000\"]"]),
        ("caddy",  ":80 {\nroot /srv\nphp_fastcgi unix//run/php.sock\nfile_server\n}",        &["proxy = [\"*.php=fastcgi://unix:/run/php.sock\"]"]),
        ("caddy",  ":80 {\nroot /srv\nredir /a/* https://b.org{uri} 308\n}",                  &["from = \"/a/*\"", "to = \"https://b.org/a/:splat\"", "status = 308"]),
        ("caddy",  ":80 {\nroot /srv\n@s path *.css *.js\nheader @s Cache-Control max-age=60\nheader -Server\n}", &["server-header = false", "path = \"/*.css\"", "cache = \"max-age=60\"", "path = \"/*.js\""]),
        ("caddy",  ":80 {\nroot /srv\nhandle_errors 404 {\nrewrite * /e.html\nfile_server\n}\n}", &["status = 404", "path = \"/e.html\""]),
        ("caddy",  ":80 {\nroot /srv\nlog {\noutput file /l {\nroll_size 10mb\nroll_keep 3\n}\n}\n}", &["access-log-size = \"10MiB\"", "access-log-keep = 3", "access-log = \"/l\"", "access-log-format = \"json\""]),
        ("caddy",  "{\nservers {\ntrusted_proxies static 10.0.0.0/8\n}\n}\n:80 {\nroot /srv\n}", &["trusted-proxies = [\"10.0.0.0/8\"]", "client-address-from = \"x-forwarded-for\""]),
    ];
    for (syntax, text, want) in cases {
        let (dir, exit) = imported(syntax, "a", text);
        check(dir.path(), &exit.out);
        let mut rest = exit.out.lines();
        for want in *want {
            assert!(
                rest.any(|line| line == *want),
                "no line {want} in its place:\n{text}\n\n{}{}",
                exit.out,
                exit.err
            );
        }
    }
}
