//! The names that other web servers have for options, and where tarpon has the same.

/// Returns where to find what another web server calls by this name, in lower case with dashes or underscores.
pub(super) fn advice(name: &str) -> Option<&'static str> {
    let name = name.replace('_', "-").to_ascii_lowercase();
    SYNONYMS.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, advice)| *advice)
}

#[rustfmt::skip]
const SYNONYMS: &[(&[&str], &str)] = &[
    (&["root", "document-root", "documentroot", "docroot", "dir", "directory", "folder", "public", "static"],
        "the directory or archive of a site is `path` in [[site]]"),
    (&["server-name", "servername", "serveralias", "hostname", "hostnames", "domains", "vhost"],
        "the names of a site are `hosts` in [[site]]"),
    (&["port", "bind", "interface"],
        "addresses and ports are `address` in [[listener]], or --listen and --port"),
    (&["gzip", "gzip-static", "gzip-types", "brotli", "brotli-static", "zstd", "encode", "compression", "deflate", "precompressed"],
        "files are compressed once: by tarpon pack before, or in the background as `compress` in [[site]] says"),
    (&["expires", "cache-control", "cache-control-headers", "max-age", "etag"],
        "names with a hash are cached for a year, and others are checked each time; `cache` in [[site.location]] and a rule in the file _headers change that"),
    (&["add-header", "set-header", "headers", "custom-headers", "setenv"],
        "fields of responses are [[site.header]], or rules in the file _headers of the site"),
    (&["autoindex", "browse", "dir-listing", "directory-listing", "indexes", "file-server"],
        "lists of directories are `listings` in [[site]]"),
    (&["try-files", "fallback", "page-fallback", "fallbackresource", "history-api-fallback"],
        "/index.html for missing pages is `spa` in [[site]]; addresses without .html are `clean-urls`"),
    (&["rewrite", "return", "redir", "redirects", "rewriterule", "url-rewrite"],
        "redirects are [[site.redirect]], or rules in the file _redirects of the site"),
    (&["error-pages", "handle-errors", "page404", "errordocument", "not-found"],
        "a page for an error is the file 404.html of the site, or [[site.error-page]]"),
    (&["proxy-pass", "reverse-proxy", "proxypass", "backend", "upstreams"],
        "requests go to other servers by `proxy` in [[site]], as in proxy = [\"/api/=http://127.0.0.1:9000\"]"),
    (&["fastcgi-pass", "php-fastcgi", "fastcgi", "php"],
        "scripts of PHP-FPM run by `proxy` in [[site]], as in proxy = [\"*.php=fastcgi://unix:/run/php/php-fpm.sock\"]"),
    (&["alias", "handle", "route"],
        "directories elsewhere are sites of their own with `mount` in [[site]]; rules for some paths are [[site.location]]"),
    (&["ssl", "ssl-certificate", "sslcertificatefile", "certificate", "cert", "http2-tls-cert"],
        "certificates are `tls-cert` and `tls-key` in [server]; `domain` in [[site]] obtains one by ACME"),
    (&["ssl-certificate-key", "sslcertificatekeyfile", "private-key", "key", "http2-tls-key"],
        "the private key is `tls-key` in [server]"),
    (&["worker-processes", "threads", "threads-multiplier", "num-threads"],
        "the number of workers is `workers` in [server]"),
    (&["keepalive-timeout", "keep-alive-timeout"],
        "it is `idle-timeout` in [server]"),
    (&["client-header-timeout", "read-header-timeout"],
        "it is `header-timeout` in [server]"),
    (&["client-max-body-size", "request-body", "max-request-body-size"],
        "it is `max-body` in [[upstream]], and `cgi-max-body` in [server] for CGI programs"),
    (&["limit-conn", "limit-conn-zone", "max-connections-per-client", "max-conn-per-ip"],
        "the connections of each address are limited by `max-connections-per-ip` in [server]"),
    (&["worker-connections", "maxconn", "max-conn", "maxclients", "maxrequestworkers"],
        "the connections of all clients are limited by `max-connections` in [server]"),
    (&["limit-req", "limit-req-zone", "rate-limit", "ratelimit", "requests-per-second"],
        "the requests of each address are limited by `request-rate` in [server], and in [[site.limit]] for some paths"),
    (&["auth-basic-user-file", "basic-auth", "basicauth", "authuserfile", "htpasswd", "user-file"],
        "users with passwords are `users-file` in [[site.limit]]; tarpon hash-password makes their lines"),
    (&["auth-basic", "authname"],
        "the text beside the question for a password is `realm` in [[site.limit]], beside `users-file`"),
    (&["error-log", "log-file", "log-level", "customlog", "errorlog"],
        "requests go to `access-log` in [log]; messages go to standard error"),
    (&["allow-origin", "cors-allow-origins"],
        "it is `cors` in [[site]]"),
    (&["index-files", "directoryindex", "index-file"],
        "the page of a directory is `index` in [[site]]"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::config::SECTIONS;

    #[test]
    fn advice_names_what_there_is() {
        let options: Vec<_> =
            SECTIONS.iter().flat_map(|section| section.options).map(|option| option.name).collect();
        let headers: Vec<_> = SECTIONS.iter().map(|section| section.header()).collect();
        for (names, advice) in SYNONYMS {
            for name in advice.split('`').skip(1).step_by(2) {
                assert!(options.contains(&name), "`{name}` in: {advice}");
            }
            let sections = advice.split(' ').filter(|word| word.starts_with('[') && !word.contains('"'));
            for header in sections.map(|word| word.trim_end_matches([',', ';'])) {
                assert!(headers.iter().any(|known| known == header), "{header} in: {advice}");
            }
            for name in *names {
                assert_eq!(super::advice(name), Some(*advice), "{name} stands twice");
            }
        }
        assert_eq!(super::advice("Client_Max_Body_Size"), super::advice("client-max-body-size"));
    }
}
