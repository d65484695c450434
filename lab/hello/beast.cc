// A function that answers "Hello world", embedded with Boost.Beast: `hello_beast ADDRESS:PORT`.
//
// One thread, as in the other programs of this race. No timeouts, and no Date in the responses.

#include <boost/asio.hpp>
#include <boost/beast.hpp>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

class Connection : public std::enable_shared_from_this<Connection> {
  public:
    explicit Connection(tcp::socket socket) : socket_(std::move(socket)) {}

    void read() {
        request_ = {};
        http::async_read(socket_, buffer_, request_, [self = shared_from_this()](beast::error_code error, std::size_t) {
            if (!error) {
                self->respond();
            }
        });
    }

  private:
    void respond() {
        response_ = {http::status::ok, request_.version()};
        response_.set(http::field::server, "Beast");
        response_.set(http::field::content_type, "text/plain; charset=utf-8");
        response_.keep_alive(request_.keep_alive());
        response_.body() = "Hello world\n";
        response_.prepare_payload();
        http::async_write(socket_, response_, [self = shared_from_this()](beast::error_code error, std::size_t) {
            if (error) {
                return;
            }
            if (self->response_.need_eof()) {
                self->socket_.shutdown(tcp::socket::shutdown_send, error);
                return;
            }
            self->read();
        });
    }

    tcp::socket socket_;
    beast::flat_buffer buffer_;
    http::request<http::string_body> request_;
    http::response<http::string_body> response_;
};

void accept(tcp::acceptor &acceptor) {
    acceptor.async_accept([&acceptor](beast::error_code error, tcp::socket socket) {
        if (!error) {
            socket.set_option(tcp::no_delay(true));
            std::make_shared<Connection>(std::move(socket))->read();
        }
        accept(acceptor);
    });
}

} // namespace

int main(int argc, char **argv) {
    std::string address = argc > 1 ? argv[1] : "";
    auto colon = address.rfind(':');
    if (colon == std::string::npos) {
        std::fprintf(stderr, "usage: hello_beast ADDRESS:PORT\n");
        return 2;
    }
    // The hint lets Asio leave out the locks of a program with one thread.
    asio::io_context context(1);
    auto port = static_cast<unsigned short>(std::stoi(address.substr(colon + 1)));
    tcp::acceptor acceptor(context, {asio::ip::make_address(address.substr(0, colon)), port});
    accept(acceptor);
    context.run();
}
