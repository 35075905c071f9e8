#include "server/http/http_server.h"

#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/connection.h"

namespace crema::server {
namespace {

[[noreturn]] void BadFile(const std::string& file, const char* what) {
  Fail(ErrorCode::kInvalidArgument, what, {.file = file});
}

asio::ssl::context MakeTls(const HttpOptions& options) {
  asio::ssl::context tls(asio::ssl::context::tls_server);
  tls.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                  asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                  asio::ssl::context::no_tlsv1_1);
  // A client may not make the server compute one handshake after the other.
  SSL_CTX_set_options(tls.native_handle(), SSL_OP_NO_RENEGOTIATION);
  boost::system::error_code error;
  tls.use_certificate_chain_file(options.tls_cert, error);
  if (error) BadFile(options.tls_cert, "holds no certificate in PEM form");
  tls.use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  if (error) BadFile(options.tls_key, "holds no key in PEM form that fits the certificate");
  return tls;
}

}  // namespace

class HttpServer::Listener {
 public:
  Listener(const HttpOptions& options, HttpHandler& handler)
      : options_(options), context_(options_, handler), acceptor_(io_), retry_(io_) {
    if (!options_.tls_cert.empty()) tls_.emplace(MakeTls(options_));
    Listen();
    Accept();
    for (int i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this] { io_.run(); });
    }
  }
  ~Listener() {
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  uint16_t port() const { return port_; }
  bool busy() const { return context_.busy > 0; }
  void Drain() { context_.draining = true; }

 private:
  void Listen() {
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(options_.host, error);
    if (error) {
      crema::Fail(ErrorCode::kInvalidArgument, StrCat("'", options_.host, "' is no address"));
    }
    const tcp::endpoint place(address, options_.port);
    acceptor_.open(place.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(place, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      crema::Fail(ErrorCode::kIoFailure, StrCat("cannot listen on ", options_.host, " port ",
                                                options_.port, ": ", error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
  }

  void Accept() {
    acceptor_.async_accept(asio::make_strand(io_),
                           [this](boost::system::error_code error, tcp::socket socket) {
                             if (error) return AcceptLater();
                             Take(std::move(socket));
                             Accept();
                           });
  }

  // Out of descriptors: some will be given back.
  void AcceptLater() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](boost::system::error_code error) {
      if (!error) Accept();
    });
  }

  void Take(tcp::socket&& socket) {
    if (++context_.open > options_.connections) {
      --context_.open;
      return;
    }
    const auto executor = socket.get_executor();
    if (tls_) {
      using Stream = asio::ssl::stream<tcp::socket>;
      auto connection =
          std::make_shared<Connection<Stream>>(Stream(std::move(socket), *tls_), context_);
      asio::dispatch(executor, [connection] { connection->Start(); });
    } else {
      auto connection = std::make_shared<Connection<tcp::socket>>(std::move(socket), context_);
      asio::dispatch(executor, [connection] { connection->Start(); });
    }
  }

  const HttpOptions options_;
  ConnectionContext context_;
  asio::io_context io_;
  std::optional<asio::ssl::context> tls_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(const HttpOptions& options, HttpHandler& handler)
    : listener_(std::make_unique<Listener>(options, handler)) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return listener_->port(); }

void HttpServer::Drain() { listener_->Drain(); }

bool HttpServer::busy() const { return listener_->busy(); }

}  // namespace crema::server
