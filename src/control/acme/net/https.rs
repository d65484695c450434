//! Requests to a directory over HTTPS: HTTP/1.1, a connection for each, with limits of time and length.

use super::super::machine::RETRY_AFTER_MAX;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Request, Response,
    body::Bytes,
    header::{HOST, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::{
    error::Error,
    fmt,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

/// Bytes of the content of a response, at most. The longest is a chain, of some 10 KiB.
const RESPONSE_LEN_MAX: usize = 256 * 1024;
/// How long a request may take, with all that precedes it. Directories answer within seconds.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// How long one address may take to accept a connection before the next is tried.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Addresses of a host that are tried.
const ADDRESS_COUNT_MAX: usize = 8;

/// A client for requests to a directory.
#[derive(Clone)]
pub(super) struct HttpsClient {
    tls: TlsConnector,
    last: Arc<Mutex<LastResponse>>,
    request_time_max: Duration,
}

/// What `instant-acme` does not pass on of the last response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastResponse {
    pub(super) status: u16,
    /// After how many seconds the directory wants to be asked again.
    pub(super) retry_after_s: Option<u64>,
}

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum HttpsError {
    NotHttps,
    Resolve(io::Error),
    NoAddress,
    Connect(io::Error),
    Tls(io::Error),
    Http(hyper::Error),
    Content(Box<dyn Error + Send + Sync>),
    Timeout,
}

impl HttpsClient {
    /// Returns a client that trusts these roots, in PEM, or those of the system.
    pub(super) fn new(roots: Option<&[u8]>) -> Result<HttpsClient, String> {
        let mut store = rustls::RootCertStore::empty();
        match roots {
            Some(pem) => {
                for root in CertificateDer::pem_slice_iter(pem) {
                    let added = root
                        .map_err(|error| error.to_string())
                        .and_then(|root| store.add(root).map_err(|error| error.to_string()));
                    added.map_err(|error| format!("the roots of the directory cannot be read: {error}"))?;
                }
            }
            None => drop(store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        if store.is_empty() {
            return Err("there is no root that certifies a directory; install ca-certificates, or name a file with --acme-ca".to_owned());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(HttpsClient {
            tls: Arc::new(config).into(),
            last: Arc::default(),
            request_time_max: REQUEST_TIME_MAX,
        })
    }

    /// Returns what is known of the last response, and forgets it.
    pub(super) fn take_last(&self) -> LastResponse {
        std::mem::take(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn exchange(&self, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, HttpsError> {
        let uri = request.uri().clone();
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"));
        let authority = authority.ok_or(HttpsError::NotHttps)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(443);
        let name = ServerName::try_from(host.clone()).map_err(|_| HttpsError::NotHttps)?;
        let stream = connect(&host, port).await?;
        let stream = self.tls.connect(name, stream).await.map_err(HttpsError::Tls)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(HttpsError::Http)?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(authority.as_str()).map_err(|_| HttpsError::NotHttps)?);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tarpon/", env!("CARGO_PKG_VERSION"))));
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        *request.uri_mut() = target.parse().map_err(|_| HttpsError::NotHttps)?;
        let response = async {
            let response = sender.send_request(request).await.map_err(HttpsError::Http)?;
            let (mut parts, body) = response.into_parts();
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = LastResponse {
                status: parts.status.as_u16(),
                retry_after_s: limit_retry_after(&mut parts.headers, SystemTime::now()),
            };
            let content = Limited::new(body, RESPONSE_LEN_MAX).collect().await;
            Ok((parts, content.map_err(HttpsError::Content)?))
        };
        let (parts, content) = drive(connection, response).await?;
        Ok(BytesResponse::from(Response::from_parts(parts, http_body_util::Full::new(content.to_bytes()))))
    }
}

impl HttpClient for HttpsClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let response = timeout(client.request_time_max, client.exchange(request)).await;
            let response = response.unwrap_or(Err(HttpsError::Timeout));
            response.map_err(|error| instant_acme::Error::Other(Box::new(error)))
        })
    }
}

/// Runs what uses a connection, and the connection with it: both end together.
async fn drive<T>(connection: impl Future, user: impl Future<Output = T>) -> T {
    let (mut connection, mut user) = (pin!(connection), pin!(user));
    let mut is_open = true;
    poll_fn(|cx| {
        is_open = is_open && connection.as_mut().poll(cx).is_pending();
        user.as_mut().poll(cx)
    })
    .await
}

/// Connects to one of the addresses of a host.
async fn connect(host: &str, port: u16) -> Result<TcpStream, HttpsError> {
    let addresses = tokio::net::lookup_host((host, port)).await.map_err(HttpsError::Resolve)?;
    let mut last = HttpsError::NoAddress;
    for address in addresses.take(ADDRESS_COUNT_MAX) {
        match timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = HttpsError::Connect(error),
            Err(_) => last = HttpsError::Timeout,
        }
    }
    Err(last)
}

/// Returns the TCP ports that requests to a directory need: its own, the usual one of HTTPS, and that of name servers.
pub(super) fn ports(directory: &str) -> Vec<u16> {
    let uri: Option<hyper::Uri> = directory.parse().ok();
    let own = uri.as_ref().and_then(hyper::Uri::port_u16);
    own.into_iter().chain([443, 53]).collect()
}

/// Returns the seconds of Retry-After, at most [`RETRY_AFTER_MAX`]. Replaces the field by this number: `instant-acme` adds any number to the
/// present time.
fn limit_retry_after(fields: &mut HeaderMap, now: SystemTime) -> Option<u64> {
    let value = fields.remove(RETRY_AFTER)?;
    let seconds = retry_after_s(value.to_str().ok()?, now)?.min(RETRY_AFTER_MAX.as_secs());
    fields.insert(RETRY_AFTER, seconds.into());
    Some(seconds)
}

/// Parses a Retry-After: RFC 9110, section 10.2.3.
fn retry_after_s(text: &str, now: SystemTime) -> Option<u64> {
    let now_s = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    text.trim().parse().ok().or_else(|| {
        let at_s = tarpon_http::date::parse(text.trim().as_bytes(), now_s)?;
        Some(at_s.saturating_sub(now_s))
    })
}

impl fmt::Display for HttpsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpsError::NotHttps => f.write_str("it names a URL that is not https"),
            HttpsError::Resolve(error) => write!(f, "its name cannot be resolved: {error}"),
            HttpsError::NoAddress => f.write_str("its name has no address"),
            HttpsError::Connect(error) => write!(f, "{error}"),
            HttpsError::Tls(error) => write!(f, "TLS: {error}"),
            HttpsError::Http(error) => write!(f, "{error}"),
            HttpsError::Content(error) => write!(f, "its response cannot be read: {error}"),
            HttpsError::Timeout => f.write_str("no answer in time"),
        }
    }
}

impl Error for HttpsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        #[rustfmt::skip]
        let cases = [
            ("120",                           Some(120)),
            (" 0 ",                           Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", Some(0)),
            ("soon",                          None),
            ("-1",                            None),
            ("",                              None),
        ];
        for (text, want) in cases {
            assert_eq!(retry_after_s(text, now), want, "{text}");
        }
    }

    #[test]
    fn waits_that_a_directory_asks_for_are_limited() {
        let now = SystemTime::now();
        #[rustfmt::skip]
        let cases = [
            ("short",        "120",                           Some(120)),
            ("two days",     "172800",                        Some(172_800)),
            ("longer",       "172801",                        Some(172_800)),
            ("the longest",  "18446744073709551615",          Some(172_800)),
            ("no number",    "99999999999999999999",          None),
            ("a far date",   "Fri, 31 Dec 9999 23:59:59 GMT", Some(172_800)),
        ];
        for (name, text, want) in cases {
            let mut fields = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(limit_retry_after(&mut fields, now), want, "{name}");
            let left = fields.get(RETRY_AFTER).map(|value| value.to_str().unwrap().parse().unwrap());
            assert_eq!(left, want, "{name}");
        }
    }

    /// The content trickles in; neither it nor the connection outlives the time of the request.
    #[test]
    fn slow_content_ends_with_the_time_of_the_request() {
        use std::io::{Read, Write};
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let client = HttpsClient::new(Some(made.cert.pem().as_bytes())).unwrap();
        let client = HttpsClient { request_time_max: Duration::from_millis(200), ..client };
        let key = made.signing_key.serialize_der().try_into().unwrap();
        let server =
            rustls::ServerConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into());
        let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let server = Arc::new(server.with_single_cert(vec![made.cert.der().clone()], key).unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let served = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = rustls::StreamOwned::new(rustls::ServerConnection::new(server).unwrap(), stream);
            let mut answer = || -> io::Result<()> {
                stream.read_exact(&mut [0; 16])?;
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
                loop {
                    stream.write_all(b"x")?;
                    stream.flush()?;
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            answer().expect_err("the client closes");
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = Request::get(&url).body(BodyWrapper::default()).unwrap();
        let answered = runtime.block_on(client.request(request));
        let error = answered.err().expect("too slow");
        assert_eq!(error.to_string(), "no answer in time");
        served.join().unwrap();
    }

    #[test]
    fn ports_are_those_of_the_directory_and_of_name_servers() {
        assert_eq!(ports("https://ca.example/directory"), [443, 53]);
        assert_eq!(ports("https://ca.example:14000/dir"), [14000, 443, 53]);
    }
}
