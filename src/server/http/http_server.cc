#include "server/http/http_server.h"

#include <algorithm>
#include <atomic>
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
        lanes_(static_cast<size_t>(options_.threads)),
        acceptor_(lanes_[0].io),
        retry_(lanes_[0].io) {
    if (!options_.tls_cert.empty()) tls_ = MakeSharedTls();
    Listen();
    try {
      for (Lane& lane : lanes_) threads_.emplace_back([this, &lane] { Run(&lane); });
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
    asio::post(lanes_[0].io, [this, tls = MakeSharedTls()] { tls_ = tls; });
  }
  void StopAccepting() {
    std::promise<void> stopped;
    asio::post(lanes_[0].io, [&] {
      TakeBacklog();
      stopped.set_value();
    });
    stopped.get_future().wait();
  }

 private:
  // Connections of one thread. No strands: those of Asio hang, or end the process, if an
  // allocation fails.
  struct Lane {
    std::atomic<size_t> open{0};
    asio::io_context io{1};
    const asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  };

  void JoinThreads() {
    for (Lane& lane : lanes_) lane.io.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  // Connections above the limit that may be closing.
  static constexpr size_t kClosing = 32;

  // Permitted use of a new connection.
  enum class Place { kAny, kHealth, kNone };

  std::shared_ptr<asio::ssl::context> MakeSharedTls() const {
    return std::make_shared<asio::ssl::context>(MakeTls(options_));
  }

  // An exception of a handler (for example out of memory) ends only its connection.
  void Run(Lane* lane) {
    constexpr std::chrono::milliseconds kMoment{1};
    for (;;) {
      try {
        if (lane == lanes_.data() && !accepts_) Accept();
        lane->io.run();
        return;
      } catch (...) {
        handler_.ReportFailure(std::current_exception());
        std::this_thread::sleep_for(kMoment);
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
    while (!TakeOne()) continue;
    acceptor_.close(error);
  }

  Lane& LeastLane() {
    return *std::ranges::min_element(lanes_, {}, [](const Lane& lane) { return lane.open.load(); });
  }

  // Accepts one connection; an exception ends only that. Returns the error if there is none.
  boost::system::error_code TakeOne() {
    boost::system::error_code error;
    try {
      Lane& lane = LeastLane();
      tcp::socket socket(lane.io);
      acceptor_.accept(socket, error);
      if (!error) Take(std::move(socket), &lane);
    } catch (...) {
      handler_.ReportFailure(std::current_exception());
    }
    return error;
  }

  void Listen() {
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(options_.host, error);
    if (error) {
      crema::Fail(ErrorCode::kInvalidArgument,
                  StrCat("'", options_.host,
                         "' is not an IP address, such as 127.0.0.1; the port goes to --port"));
    }
    const tcp::endpoint place(address, options_.port);
    acceptor_.open(place.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(place, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (error) {
      const bool taken = error == asio::error::address_in_use;
      crema::Fail(ErrorCode::kIoFailure,
                  StrCat("cannot listen on ", options_.host, " port ", options_.port, ": ",
                         error.message(), taken ? "; choose another with --port" : ""));
    }
    port_ = acceptor_.local_endpoint().port();
  }

  // All of this runs on the thread of the first lane, which calls Accept() again if an exception
  // has ended it.
  void Accept() {
    if (stopped_) return;
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](boost::system::error_code error) {
      accepts_ = false;
      if (context_.closing >= kClosing / 2) return AcceptLater(std::chrono::milliseconds(1));
      if (!error) error = TakeOne();
      if (error && error != asio::error::would_block) {
        return AcceptLater(std::chrono::milliseconds(100));
      }
      Accept();
    });
    accepts_ = true;
  }

  // Out of descriptors, or connections that make room are still open.
  void AcceptLater(std::chrono::milliseconds wait) {
    if (stopped_) return;
    retry_.expires_after(wait);
    retry_.async_wait([this](boost::system::error_code error) {
      accepts_ = false;
      if (!error) Accept();
    });
    accepts_ = true;
  }
  // `open` includes the new one. The limit may be exceeded slightly until connections that were
  // asked to close have closed.
  Place PlaceFor(size_t open) {
    constexpr size_t kGuests = kClosing / 2;
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

  void Take(tcp::socket&& socket, Lane* lane) {
    Counted open(context_.open);
    const Place place = PlaceFor(context_.open);
    if (place == Place::kNone) return Turn(std::move(socket));
    if (tls_) {
      using Stream = asio::ssl::stream<tcp::socket>;
      Begin(Stream(std::move(socket), *tls_), place, std::move(open), lane);
    } else {
      Begin(std::move(socket), place, std::move(open), lane);
    }
  }

  template <typename Stream>
  void Begin(Stream stream, Place place, Counted open, Lane* lane) {
    std::make_shared<Connection<Stream>>(std::move(stream), context_, place == Place::kHealth,
                                         std::move(open), Counted(lane->open))
        ->Begin();
  }

  const HttpOptions options_;
  HttpHandler& handler_;
  ConnectionContext context_;
  std::vector<Lane> lanes_;
  std::shared_ptr<asio::ssl::context> tls_;  // on the first lane; null: no TLS
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  uint16_t port_ = 0;
  bool accepts_ = false;  // on the first lane: an operation calls Accept() when it is done
  bool stopped_ = false;  // on the first lane
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
