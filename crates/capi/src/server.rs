//! The server: settings, sites, routes, start and stop.

use crate::{
    exchange::{tarpon_callback, tarpon_request, tarpon_response},
    text::{run, text},
};
use std::{
    ffi::{c_char, c_void},
    mem,
    net::TcpListener,
    num::NonZeroUsize,
    ptr,
    time::Duration,
};
use tarpon::{
    Functions, Handle, Listener, Request, Response, Route, Server, Settings, Site, TlsCertificate, TlsConfig,
    UnknownHost, VirtualHost, VirtualHosts,
};

/// A server. Its functions may be called by one thread at a time, except `tarpon_server_stop`, which any thread may call while the server
/// runs.
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct tarpon_server {
    settings: Settings,
    listeners: Vec<Listener>,
    sites: Vec<VirtualHost>,
    functions: Functions,
    /// Set once the server has started.
    running: Option<Server>,
    handle: Option<Handle>,
    port: u16,
    /// That of the routes that are added next.
    content_len_max: u64,
}

/// The maximum length of the content of a request in bytes, until the program sets another one.
const CONTENT_LEN_MAX: u64 = 1 << 20;

/// Where the callback of a route runs: `TARPON_ON_WORKER` or `TARPON_ON_THREADS`.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type tarpon_place = u32;

/// On the worker that has received the request, when its content is complete. The callback must be fast, and must not wait, because other clients
/// of the worker wait with it.
pub const TARPON_ON_WORKER: tarpon_place = 0;

/// On a thread of a pool, where the callback may wait, and reads the content as it arrives.
pub const TARPON_ON_THREADS: tarpon_place = 1;

/// Returns a new server with default settings, which `tarpon_server_free` frees.
#[unsafe(no_mangle)]
pub extern "C" fn tarpon_server_new() -> *mut tarpon_server {
    let server = tarpon_server {
        settings: Settings::default(),
        listeners: Vec::new(),
        sites: Vec::new(),
        functions: Functions::new(),
        running: None,
        handle: None,
        port: 0,
        content_len_max: CONTENT_LEN_MAX,
    };
    Box::into_raw(Box::new(server))
}

/// Sets the engine: auto (the default), io_uring, epoll, poll, threads.
///
/// # Safety
/// `server` is one of `tarpon_server_new` that was not freed; `name` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_set_engine(
    server: *mut tarpon_server,
    name: *const c_char,
) -> *mut c_char {
    run(|| {
        // SAFETY: the caller promises a server that no other thread uses, and a zero at the end of the name.
        let (server, name) = unsafe { (&mut *server, text(name, "the engine")?) };
        server.settings.engine = name.parse().map_err(|_| format!("there is no engine {name}"))?;
        Ok(())
    })
}

/// Sets the number of workers. 0: the default of the engine.
///
/// # Safety
/// `server` is one of `tarpon_server_new` that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_set_workers(server: *mut tarpon_server, count: usize) {
    // SAFETY: the caller promises a server that no other thread uses.
    unsafe { &mut *server }.settings.worker_count = NonZeroUsize::new(count);
}

/// Sets how many threads run callbacks of `TARPON_ON_THREADS` and send files and streams, at most, and how many requests wait for one. They are 16
/// and 64 otherwise. The response to a further request is 503.
///
/// # Safety
/// `server` is one of `tarpon_server_new` that was not freed, and has not started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_set_threads(
    server: *mut tarpon_server,
    count: usize,
    queue_len: usize,
) {
    // SAFETY: the caller promises a server that no other thread uses.
    let server = unsafe { &mut *server };
    let functions = mem::take(&mut server.functions);
    let count = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
    server.functions = functions.thread_count(count).queue_len(queue_len);
}

/// Sets the maximum length of the content of a request in bytes, for the routes that are added next. It is 1 MiB otherwise. The response to a
/// longer one is 413.
///
/// # Safety
/// As for `tarpon_server_set_workers`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_set_content_max(server: *mut tarpon_server, len: u64) {
    // SAFETY: the caller promises a server that no other thread uses.
    unsafe { &mut *server }.content_len_max = len;
}

/// Listens at an address such as 127.0.0.1:8080. The port 0 is for a free one, which `tarpon_server_port` returns.
///
/// # Safety
/// As for `tarpon_server_set_engine`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_listen(
    server: *mut tarpon_server,
    address: *const c_char,
) -> *mut c_char {
    run(|| {
        // SAFETY: the caller promises a server that no other thread uses, and a zero at the end of the address.
        let (server, address) = unsafe { (&mut *server, text(address, "the address")?) };
        let listener = server.bind(address)?;
        server.listeners.push(listener);
        Ok(())
    })
}

/// Listens at an address for clients with TLS. `certificate` and `key` are files in PEM: the chain of the certificate, and its key.
///
/// # Safety
/// As for `tarpon_server_set_engine`; `certificate` and `key` end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_listen_tls(
    server: *mut tarpon_server,
    address: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
) -> *mut c_char {
    run(|| {
        // SAFETY: the caller promises a server that no other thread uses, and zeros at the ends of the texts.
        let (server, address) = unsafe { (&mut *server, text(address, "the address")?) };
        // SAFETY: as above.
        let (certificate, key) = unsafe { (text(certificate, "the certificate")?, text(key, "the key")?) };
        let certificate = TlsCertificate::from_pem_files(certificate, key);
        let certificate = certificate.map_err(|error| error.to_string())?;
        let config = TlsConfig::new(&[certificate]).map_err(|error| error.to_string())?;
        let listener = server.bind(address)?;
        server.listeners.push(listener.with_tls(&config));
        Ok(())
    })
}

impl tarpon_server {
    /// Binds a listener, and notes its port.
    fn bind(&mut self, address: &str) -> Result<Listener, String> {
        let failed = |error: std::io::Error| format!("cannot listen at {address}: {error}");
        let listener = TcpListener::bind(address).map_err(failed)?;
        self.port = listener.local_addr().map_err(failed)?.port();
        Listener::try_from(listener).map_err(failed)
    }
}

/// Returns the port of the address that was listened at last.
///
/// # Safety
/// `server` is one of `tarpon_server_new` that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_port(server: *const tarpon_server) -> u16 {
    // SAFETY: the caller promises a server that no other thread changes.
    unsafe { &*server }.port
}

/// Adds a static site: a directory, or an archive: one of tar, or one that tarpon pack has written. `host`: the host that it answers for;
/// NULL for all hosts that no other site has. Its files answer requests that no route is for.
///
/// # Safety
/// As for `tarpon_server_set_engine`; `host` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_add_site(
    server: *mut tarpon_server,
    path: *const c_char,
    host: *const c_char,
) -> *mut c_char {
    run(|| {
        // SAFETY: the caller promises a server that no other thread uses, and a zero at the end of the path.
        let (server, path) = unsafe { (&mut *server, text(path, "the path")?) };
        let names = match host.is_null() {
            true => Vec::new(),
            false => {
                // SAFETY: the caller promises a zero at the end of the host.
                let host = unsafe { text(host, "the host")? };
                vec![host.parse().map_err(|error| format!("the host: {error}"))?]
            }
        };
        let site = match std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            true => Site::from_dir(path),
            false => Site::from_archive(path, ""),
        };
        let site = site.map_err(|error| error.to_string())?;
        server.sites.push(VirtualHost { names, ..VirtualHost::from(site) });
        Ok(())
    })
}

/// Adds a route: the requests for this path and all paths below it. `context` is passed to each call of `callback`, on several threads at
/// the same time; it must exist until `tarpon_server_join` has returned.
///
/// # Safety
/// As for `tarpon_server_set_engine`; `callback` may be called with `context` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_route(
    server: *mut tarpon_server,
    path: *const c_char,
    place: tarpon_place,
    callback: tarpon_callback,
    context: *mut c_void,
) -> *mut c_char {
    run(|| {
        // SAFETY: the caller promises a server that no other thread uses, and a zero at the end of the path.
        let (server, path) = unsafe { (&mut *server, text(path, "the path")?) };
        let callback = callback.ok_or("the callback is NULL")?;
        let context = CallbackContext(context);
        let route = Route::new(path, move |request: &mut Request<'_>| -> Result<Response, String> {
            let (mut request, mut response) = (tarpon_request::new(request), tarpon_response::new());
            // SAFETY: the caller of this function promises that the callback may be called with the context on any thread. Request and
            // response live until it returns, and no other code has the response.
            unsafe { callback(context.pointer(), &mut request, &mut response) };
            response.into_response()
        });
        let route = route.content_len_max(server.content_len_max);
        let route = match place {
            TARPON_ON_WORKER => route,
            TARPON_ON_THREADS => route.on_threads(),
            _ => return Err(format!("there is no place {place} for a callback")),
        };
        server.functions = mem::take(&mut server.functions).route(route);
        Ok(())
    })
}

/// Starts the server. Returns when its workers run. Ignores SIGPIPE, unless the program handles it: a client may leave while the server
/// sends.
///
/// # Safety
/// `server` is one of `tarpon_server_new` that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_start(server: *mut tarpon_server) -> *mut c_char {
    run(|| {
        // SAFETY: the caller promises a server that no other thread uses.
        let server = unsafe { &mut *server };
        if server.handle.is_some() {
            return Err("the server was started before; make a new one".to_owned());
        }
        if server.listeners.is_empty() {
            return Err("the server has no address; call tarpon_server_listen first".to_owned());
        }
        ignore_broken_pipes();
        let sites = mem::take(&mut server.sites);
        let sites = match sites.is_empty() {
            true => VirtualHosts::from(Site::empty()),
            false => {
                let default = sites.iter().position(|site| site.names.is_empty());
                let unknown = default.map_or(UnknownHost::Refused, UnknownHost::Site);
                VirtualHosts::new(sites, unknown).map_err(|error| error.to_string())?
            }
        };
        let sites = sites.with_functions(mem::take(&mut server.functions));
        let listeners = mem::take(&mut server.listeners);
        let running = Server::start(&server.settings, listeners, sites).map_err(|error| error.to_string())?;
        server.handle = Some(running.handle());
        server.running = Some(running);
        Ok(())
    })
}

/// Stops the server: it accepts no more clients, finishes the responses that have begun, and ends after `grace_ms` milliseconds at the
/// latest. Returns at once. Any thread may call it once `tarpon_server_start` has returned.
///
/// # Safety
/// `server` has started and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_stop(server: *const tarpon_server, grace_ms: u64) {
    // The handle does not change after the start, and `tarpon_server_join` takes another field.
    // SAFETY: the caller promises a server; only this field is read, which no function changes any more.
    if let Some(handle) = unsafe { &*ptr::addr_of!((*server).handle) } {
        handle.stop(Duration::from_millis(grace_ms));
    }
}

/// Waits until the server has stopped and all callbacks have returned.
///
/// # Safety
/// `server` is one of `tarpon_server_new` that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_join(server: *mut tarpon_server) -> *mut c_char {
    run(|| {
        // SAFETY: the caller promises a server; `tarpon_server_stop`, which may run meanwhile, reads another field.
        let running = unsafe { &mut *ptr::addr_of_mut!((*server).running) };
        match running.take() {
            Some(running) => running.join().map_err(|error| error.to_string()),
            None => Ok(()),
        }
    })
}

/// Frees a server. One that runs is stopped at once first. NULL is allowed.
///
/// # Safety
/// `server` is one of `tarpon_server_new`, and is freed once; no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tarpon_server_free(server: *mut tarpon_server) {
    if server.is_null() {
        return;
    }
    // SAFETY: `tarpon_server_new` has made the pointer by `into_raw`, and the caller passes it here once.
    let mut server = unsafe { Box::from_raw(server) };
    if let (Some(running), Some(handle)) = (server.running.take(), &server.handle) {
        handle.stop(Duration::ZERO);
        let _ = running.join();
    }
}

/// Ignores SIGPIPE if its disposition is the default, which ends the process.
fn ignore_broken_pipes() {
    // SAFETY: the calls read and write only `action`, and install no handler.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_DFL
        {
            action.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(libc::SIGPIPE, &action, ptr::null_mut());
        }
    }
}

/// The pointer of a route.
struct CallbackContext(*mut c_void);

impl CallbackContext {
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

// SAFETY: this library only passes the pointer on. The caller of `tarpon_server_route` promises that the callback may get it on any thread.
unsafe impl Send for CallbackContext {}
// SAFETY: as above.
unsafe impl Sync for CallbackContext {}

impl std::fmt::Debug for tarpon_server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("tarpon_server").field("has_started", &self.handle.is_some()).finish_non_exhaustive()
    }
}
