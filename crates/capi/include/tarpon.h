// tarpon: a web server within a program. cbindgen has made this file of crates/capi/src.

#ifndef TARPON_H
#define TARPON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A request. It exists until its callback returns.
struct tarpon_request;

// A response. It exists until its callback returns.
struct tarpon_response;

// A server. Its functions may be called by one thread at a time, except `tarpon_server_stop`, which any thread may call while the server
// runs.
struct tarpon_server;

// Writes the content of a response. It exists until its callback returns.
struct tarpon_writer;

// Bytes that belong to another value, without a zero at their end. `bytes` is NULL if there are none.
struct tarpon_bytes {
  // The first byte.
  const char *bytes;
  // The number of bytes.
  size_t len;
};

// Writes the content of a response. Returns false if it is incomplete: the client sees that. It must not throw an exception.
typedef bool (*tarpon_write)(void *context, struct tarpon_writer *writer);

// Releases a context. It must not throw an exception.
typedef void (*tarpon_release)(void *context);

// Where the callback of a route runs: `TARPON_ON_WORKER` or `TARPON_ON_THREADS`.
typedef uint32_t tarpon_place;

// Responds to a request. It must not throw an exception. `context` is the pointer that was passed with the route; callbacks run on several
// threads at the same time.
typedef void (*tarpon_callback)(void *context,
                                struct tarpon_request *request,
                                struct tarpon_response *response);

// On the worker that has received the request, when its content is complete. The callback must be fast, and must not wait, because other clients
// of the worker wait with it.
#define TARPON_ON_WORKER 0

// On a thread of a pool, where the callback may wait, and reads the content as it arrives.
#define TARPON_ON_THREADS 1

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Frees the text of an error. NULL is allowed.
//
// # Safety
// A function of this library has returned `error`, and it is freed once.
void tarpon_error_free(char *error);

// Returns the method, such as GET.
//
// # Safety
// `request` is that of a callback which has not returned.
struct tarpon_bytes tarpon_request_method(struct tarpon_request *request);

// Returns the path, decoded and without dot segments.
//
// # Safety
// As for `tarpon_request_method`.
struct tarpon_bytes tarpon_request_path(struct tarpon_request *request);

// Returns what follows the `?` of the target. NULL: there is no `?`.
//
// # Safety
// As for `tarpon_request_method`.
struct tarpon_bytes tarpon_request_query(struct tarpon_request *request);

// Returns the host that the request is for, with its port if the client named one. NULL: the client named none.
//
// # Safety
// As for `tarpon_request_method`.
struct tarpon_bytes tarpon_request_host(struct tarpon_request *request);

// Returns the scheme that the client has used: http or https.
//
// # Safety
// As for `tarpon_request_method`.
struct tarpon_bytes tarpon_request_scheme(struct tarpon_request *request);

// Returns the IP address of the client. NULL: it is unknown, or a client of a Unix socket.
//
// # Safety
// As for `tarpon_request_method`.
struct tarpon_bytes tarpon_request_client(struct tarpon_request *request);

// Returns the value of the first field (header) with this name, in any case. NULL: there is none.
//
// # Safety
// As for `tarpon_request_method`; `name` ends with a zero.
struct tarpon_bytes tarpon_request_field(struct tarpon_request *request, const char *name);

// Returns the whole content. Its length is 0 if there is none. On a thread, waits for all of it, and keeps it in memory; what was read before
// is missing. `bytes` is NULL if it is incomplete: the client has left, is too slow, or sends too much.
//
// # Safety
// As for `tarpon_request_method`.
struct tarpon_bytes tarpon_request_content(struct tarpon_request *request);

// Reads the next part of the content, at most `len` bytes. On a thread, waits for it. Returns its length: 0 after the end, and -1 if the
// content is incomplete, because the client has left, is too slow, or sends too much.
//
// # Safety
// As for `tarpon_request_method`; `to` is the first of `len` bytes.
ptrdiff_t tarpon_request_read(struct tarpon_request *request,
                              char *to,
                              size_t len);

// Sets the status, from 200 to 599. It is 200 otherwise.
//
// # Safety
// `response` is that of a callback which has not returned.
void tarpon_response_status(struct tarpon_response *response, uint16_t status);

// Adds a field (header). The server sets Date, and the fields that frame the content or belong to the connection; a response with one of
// these or with an invalid field is sent as 500.
//
// # Safety
// As for `tarpon_response_status`; `name` and `value` end with a zero.
void tarpon_response_field(struct tarpon_response *response,
                           const char *name,
                           const char *value);

// Adds bytes to the end of the content. They are copied. Replaces a file or a stream.
//
// # Safety
// As for `tarpon_response_status`; `content` is NULL or the first of `len` bytes.
void tarpon_response_content(struct tarpon_response *response, const char *content, size_t len);

// Sets the content: `len` bytes of a file from `at` on. The library closes the descriptor. A thread sends them. With a negative descriptor, as
// that of a failed open, the response is sent as 500.
//
// # Safety
// As for `tarpon_response_status`; `descriptor` is negative, or that of an open file, which the program uses no more.
void tarpon_response_file(struct tarpon_response *response,
                          int descriptor,
                          uint64_t at,
                          uint64_t len);

// Sets the content: what `write` writes. It is called on a thread with `context`, after the callback has returned, unless the client leaves
// before. In any case `release` is called with `context` in the end; it may be NULL.
//
// # Safety
// As for `tarpon_response_status`; `write` and `release` may be called with `context` on any thread.
void tarpon_response_stream(struct tarpon_response *response,
                            tarpon_write write,
                            tarpon_release release,
                            void *context);

// Writes bytes. Waits while the client does not receive. Small writes are collected. Returns false if the client has left.
//
// # Safety
// `writer` is that of a callback which has not returned; `content` is NULL or the first of `len` bytes.
bool tarpon_writer_write(struct tarpon_writer *writer,
                         const char *content,
                         size_t len);

// Sends at once what was written. Returns false if the client has left.
//
// # Safety
// `writer` is that of a callback which has not returned.
bool tarpon_writer_flush(struct tarpon_writer *writer);

// Returns a new server with default settings, which `tarpon_server_free` frees.
struct tarpon_server *tarpon_server_new(void);

// Sets the engine: auto (the default), io_uring, epoll, poll, threads.
//
// # Safety
// `server` is one of `tarpon_server_new` that was not freed; `name` ends with a zero.
char *tarpon_server_set_engine(struct tarpon_server *server, const char *name);

// Sets the number of workers. 0: the default of the engine.
//
// # Safety
// `server` is one of `tarpon_server_new` that was not freed.
void tarpon_server_set_workers(struct tarpon_server *server, size_t count);

// Sets how many threads run callbacks of `TARPON_ON_THREADS` and send files and streams, at most, and how many requests wait for one. They are 16
// and 64 otherwise. The response to a further request is 503.
//
// # Safety
// `server` is one of `tarpon_server_new` that was not freed, and has not started.
void tarpon_server_set_threads(struct tarpon_server *server,
                               size_t count,
                               size_t queue_len);

// Sets the maximum length of the content of a request in bytes, for the routes that are added next. It is 1 MiB otherwise. The response to a
// longer one is 413.
//
// # Safety
// As for `tarpon_server_set_workers`.
void tarpon_server_set_content_max(struct tarpon_server *server,
                                   uint64_t len);

// Listens at an address such as 127.0.0.1:8080. The port 0 is for a free one, which `tarpon_server_port` returns.
//
// # Safety
// As for `tarpon_server_set_engine`.
char *tarpon_server_listen(struct tarpon_server *server,
                           const char *address);

// Listens at an address for clients with TLS. `certificate` and `key` are files in PEM: the chain of the certificate, and its key.
//
// # Safety
// As for `tarpon_server_set_engine`; `certificate` and `key` end with a zero.
char *tarpon_server_listen_tls(struct tarpon_server *server,
                               const char *address,
                               const char *certificate,
                               const char *key);

// Returns the port of the address that was listened at last.
//
// # Safety
// `server` is one of `tarpon_server_new` that was not freed.
uint16_t tarpon_server_port(const struct tarpon_server *server);

// Adds a static site: a directory, or an archive: one of tar, or one that tarpon pack has written. `host`: the host that it answers for;
// NULL for all hosts that no other site has. Its files answer requests that no route is for.
//
// # Safety
// As for `tarpon_server_set_engine`; `host` is NULL or ends with a zero.
char *tarpon_server_add_site(struct tarpon_server *server,
                             const char *path,
                             const char *host);

// Adds a route: the requests for this path and all paths below it. `context` is passed to each call of `callback`, on several threads at
// the same time; it must exist until `tarpon_server_join` has returned.
//
// # Safety
// As for `tarpon_server_set_engine`; `callback` may be called with `context` on any thread.
char *tarpon_server_route(struct tarpon_server *server,
                          const char *path,
                          tarpon_place place,
                          tarpon_callback callback,
                          void *context);

// Starts the server. Returns when its workers run. Ignores SIGPIPE, unless the program handles it: a client may leave while the server
// sends.
//
// # Safety
// `server` is one of `tarpon_server_new` that was not freed.
char *tarpon_server_start(struct tarpon_server *server);

// Stops the server: it accepts no more clients, finishes the responses that have begun, and ends after `grace_ms` milliseconds at the
// latest. Returns at once. Any thread may call it once `tarpon_server_start` has returned.
//
// # Safety
// `server` has started and was not freed.
void tarpon_server_stop(const struct tarpon_server *server,
                        uint64_t grace_ms);

// Waits until the server has stopped and all callbacks have returned.
//
// # Safety
// `server` is one of `tarpon_server_new` that was not freed.
char *tarpon_server_join(struct tarpon_server *server);

// Frees a server. One that runs is stopped at once first. NULL is allowed.
//
// # Safety
// `server` is one of `tarpon_server_new`, and is freed once; no other thread uses it.
void tarpon_server_free(struct tarpon_server *server);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TARPON_H */
