/* Serves a packed site, with callbacks beside it: /echo sends back what it gets, /count reads a content of any length, /numbers writes one, and
 * /archive sends the packed site itself. Build it with
 *
 *     cc site.c $(pkg-config --cflags --libs tarpon)
 *
 * and run `./a.out SITE [ADDRESS [ENGINE]]`. It stops on SIGINT or SIGTERM. */

#include <tarpon.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        tarpon_error_free(error);
        exit(1);
    }
}

/* Runs on a thread of the pool, so it may wait. */
static void echo(void *context, struct tarpon_request *request, struct tarpon_response *response) {
    struct tarpon_bytes content = tarpon_request_content(request);
    struct tarpon_bytes type = tarpon_request_field(request, "Content-Type");
    (void)context;
    if (content.len == 0) {
        tarpon_response_status(response, 400);
        return;
    }
    tarpon_response_field(response, "Content-Type", type.len > 0 ? "application/octet-stream" : "text/plain");
    tarpon_response_content(response, content.bytes, content.len);
}

/* Counts the bytes of the content as they arrive, in little memory. */
static void count(void *context, struct tarpon_request *request, struct tarpon_response *response) {
    char part[4096], text[32];
    unsigned long total = 0;
    ptrdiff_t len;
    (void)context;
    while ((len = tarpon_request_read(request, part, sizeof part)) > 0) {
        total += (unsigned long)len;
    }
    if (len < 0) {
        tarpon_response_status(response, 400);
        return;
    }
    tarpon_response_content(response, text, (size_t)snprintf(text, sizeof text, "%lu\n", total));
}

/* Writes as the client receives. It ends early if the client leaves. */
static bool write_numbers(void *context, struct tarpon_writer *writer) {
    const int *end = context;
    char line[32];
    int number;
    for (number = 1; number <= *end; number++) {
        if (!tarpon_writer_write(writer, line, (size_t)snprintf(line, sizeof line, "%d\n", number))) {
            return false;
        }
    }
    return true;
}

static void numbers(void *context, struct tarpon_request *request, struct tarpon_response *response) {
    struct tarpon_bytes query = tarpon_request_query(request);
    char text[16] = "";
    int *end = malloc(sizeof *end);
    (void)context;
    if (end == NULL) {
        tarpon_response_status(response, 503);
        return;
    }
    if (query.bytes != NULL && query.len < sizeof text) {
        memcpy(text, query.bytes, query.len);
    }
    *end = atoi(text);
    tarpon_response_field(response, "Content-Type", "text/plain");
    tarpon_response_stream(response, write_numbers, free, end);
}

/* Sends a file, which a thread reads as the client receives. The library closes it. */
static void archive(void *context, struct tarpon_request *request, struct tarpon_response *response) {
    int file = open(context, O_RDONLY);
    struct stat about;
    (void)request;
    if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        if (file >= 0) {
            close(file);
        }
        tarpon_response_status(response, 404);
        return;
    }
    tarpon_response_field(response, "Content-Type", "application/x-tar");
    tarpon_response_file(response, file, 0, (uint64_t)about.st_size);
}

int main(int argc, char **argv) {
    struct tarpon_server *server;
    sigset_t signals;
    int number;
    if (argc < 2) {
        fprintf(stderr, "usage: %s SITE [ADDRESS [ENGINE]]\n", argv[0]);
        return 2;
    }
    /* Blocked before any thread starts, so that only sigwait gets them. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    server = tarpon_server_new();
    check(tarpon_server_set_engine(server, argc > 3 ? argv[3] : "auto"));
    check(tarpon_server_listen(server, argc > 2 ? argv[2] : "127.0.0.1:8080"));
    check(tarpon_server_add_site(server, argv[1], NULL));
    check(tarpon_server_route(server, "/echo", TARPON_ON_THREADS, echo, NULL));
    check(tarpon_server_route(server, "/numbers", TARPON_ON_WORKER, numbers, NULL));
    check(tarpon_server_route(server, "/archive", TARPON_ON_THREADS, archive, argv[1]));
    tarpon_server_set_content_max(server, (uint64_t)1 << 40);
    check(tarpon_server_route(server, "/count", TARPON_ON_THREADS, count, NULL));
    check(tarpon_server_start(server));
    printf("http://127.0.0.1:%d/\n", tarpon_server_port(server));
    fflush(stdout);

    sigwait(&signals, &number);
    tarpon_server_stop(server, 10000);
    check(tarpon_server_join(server));
    tarpon_server_free(server);
    return 0;
}
