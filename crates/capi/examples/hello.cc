// A server whose one callback answers every request: build it with
//
//     c++ -std=c++17 hello.cc $(pkg-config --cflags --libs tarpon)
//
// and run `./a.out [ADDRESS [ENGINE [CERTIFICATE KEY]]]`. With the files of a certificate it speaks HTTPS. It stops on SIGINT or SIGTERM.

#include <tarpon.h>

#include <csignal>
#include <cstdio>
#include <string_view>

namespace {

bool failed(char *error) {
    if (error != nullptr) {
        std::fprintf(stderr, "%s\n", error);
        tarpon_error_free(error);
        return true;
    }
    return false;
}

void hello(void *, tarpon_request *, tarpon_response *response) {
    constexpr std::string_view text = "Hello world\n";
    tarpon_response_field(response, "Content-Type", "text/plain");
    tarpon_response_content(response, text.data(), text.size());
}

} // namespace

int main(int argc, char **argv) {
    // Blocked before any thread starts, so that only sigwait gets them.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    tarpon_server *server = tarpon_server_new();
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:8080";
    bool has_tls = argc > 4;
    if (failed(tarpon_server_set_engine(server, argc > 2 ? argv[2] : "auto")) ||
        failed(has_tls ? tarpon_server_listen_tls(server, address, argv[3], argv[4])
                       : tarpon_server_listen(server, address)) ||
        failed(tarpon_server_route(server, "/", TARPON_ON_WORKER, hello, nullptr)) ||
        failed(tarpon_server_start(server))) {
        tarpon_server_free(server);
        return 1;
    }
    std::printf("%s://127.0.0.1:%d/\n", has_tls ? "https" : "http", tarpon_server_port(server));
    std::fflush(stdout);

    int signal = 0;
    sigwait(&signals, &signal);
    tarpon_server_stop(server, 10000);
    bool has_failed = failed(tarpon_server_join(server));
    tarpon_server_free(server);
    return has_failed ? 1 : 0;
}
