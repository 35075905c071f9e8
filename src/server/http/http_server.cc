#include "server/http/http_server.h"

#include <future>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/connection.h"
#include "server/security/tokens.h"

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
  // Renegotiation would let a client force one handshake after the other.
  SSL_CTX_set_options(tls.native_handle(), SSL_OP_NO_RENEGOTIATION);
  // TLS 1.2 only with forward secrecy and authenticated encryption; 1.3 has nothing else.
  if (SSL_CTX_set_cipher_list(tls.native_handle(), "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
    crema::Fail(ErrorCode::kUnsupported, "OpenSSL has no cipher suite for TLS 1.2 that is safe");
  }
  RefuseOpenSecret(options.tls_key);
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
      : options_(options),
        handler_(handler),
        context_(options_, handler),
        acceptor_(asio::make_strand(io_)),
        retry_(acceptor_.get_executor()) {
    if (!options_.tls_cert.empty()) tls_ = MakeSharedTls();
    Listen();
    Accept();
    try {
      for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Run(); });
    } catch (...) {
      JoinThreads();
      throw;
    }
  }
  ~Listener() { JoinThreads(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  uint16_t port() const { return port_; }
  bool busy() const { return context_.busy > 0; }
  void Drain() { context_.draining = true; }
  void ReloadTls() {
    asio::post(acceptor_.get_executor(), [this, tls = MakeSharedTls()] { tls_ = tls; });
  }
  void StopAccepting() {
    std::promise<void> stopped;
    asio::post(acceptor_.get_executor(), [&] {
      TakeBacklog();
      stopped.set_value();
    });
    stopped.get_future().wait();
  }

 private:
  void JoinThreads() {
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  // Permitted use of a new connection.
  enum class Place { kAny, kHealth, kNone };

  std::shared_ptr<asio::ssl::context> MakeSharedTls() const {
    return std::make_shared<asio::ssl::context>(MakeTls(options_));
  }

  // An exception of a handler (for example out of memory) ends only its connection.
  void Run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (...) {
        handler_.ReportFailure(std::current_exception());
      }
    }
  }

  // Accepts connections of the backlog: their clients consider them open.
  void TakeBacklog() {
    boost::system::error_code error;
    if (!acceptor_.is_open()) return;
    stopped_ = true;
    acceptor_.cancel(error);
    retry_.cancel();
    acceptor_.non_blocking(true, error);
    while (!error) {
      tcp::socket socket(asio::make_strand(io_));
      acceptor_.accept(socket, error);
      if (!error) TryTake(std::move(socket));
    }
    acceptor_.close(error);
  }

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

  // All of this runs on the acceptor's strand.
  void Accept() {
    if (stopped_) return;
    acceptor_.async_accept(asio::make_strand(io_),
                           [this](boost::system::error_code error, tcp::socket socket) {
                             if (error) return AcceptLater();
                             TryTake(std::move(socket));
                             try {
                               Accept();
                             } catch (...) {
                               AcceptLater();
                             }
                           });
  }

  // Out of descriptors: retry when some have been closed.
  void AcceptLater() {
    if (stopped_) return;
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](boost::system::error_code error) {
      if (!error) Accept();
    });
  }

  // An error of one connection does not prevent others.
  void TryTake(tcp::socket&& socket) {
    try {
      Take(std::move(socket));
    } catch (...) {
      handler_.ReportFailure(std::current_exception());
    }
  }

  // `open` includes the new one. The limit may be exceeded slightly until connections told to close
  // have closed.
  Place PlaceFor(size_t open) {
    constexpr size_t kClosing = 32;
    constexpr size_t kGuests = 16;
    const size_t guests = context_.guests;
    const size_t others = open - guests;
    if (others <= options_.connections ||
        (others <= options_.connections + kClosing && context_.waiting.CloseOldest())) {
      return Place::kAny;
    }
    if (guests < kGuests || (guests < 2 * kGuests && context_.guests_waiting.CloseOldest())) {
      return Place::kHealth;
    }
    return Place::kNone;
  }

  void Turn(tcp::socket&& socket) {
    static constexpr std::string_view kFull =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
        "Connection: close\r\n\r\n";
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    if (!tls_) socket.send(asio::buffer(kFull.data(), kFull.size()), 0, ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  void Take(tcp::socket&& socket) {
    const Place place = PlaceFor(++context_.open);
    if (place == Place::kNone) {
      --context_.open;
      return Turn(std::move(socket));
    }
    const bool guest = place == Place::kHealth;
    const auto executor = socket.get_executor();
    if (tls_) {
      using Stream = asio::ssl::stream<tcp::socket>;
      auto connection =
          std::make_shared<Connection<Stream>>(Stream(std::move(socket), *tls_), context_, guest);
      asio::dispatch(executor, [connection] { connection->Start(); });
    } else {
      auto connection =
          std::make_shared<Connection<tcp::socket>>(std::move(socket), context_, guest);
      asio::dispatch(executor, [connection] { connection->Start(); });
    }
  }

  const HttpOptions options_;
  HttpHandler& handler_;
  ConnectionContext context_;
  asio::io_context io_;
  std::shared_ptr<asio::ssl::context> tls_;  // on the acceptor's strand; null: no TLS
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  uint16_t port_ = 0;
  bool stopped_ = false;  // on the acceptor's strand
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(const HttpOptions& options, HttpHandler& handler)
    : listener_(std::make_unique<Listener>(options, handler)) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return listener_->port(); }

void HttpServer::ReloadTls() { listener_->ReloadTls(); }

void HttpServer::Drain() { listener_->Drain(); }

void HttpServer::StopAccepting() { listener_->StopAccepting(); }

bool HttpServer::busy() const { return listener_->busy(); }

}  // namespace crema::server
