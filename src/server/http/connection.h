// One connection of HttpServer. For http_server.cc.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

// After <utility>, which Asio 1.74 uses without including it.
#include <sys/socket.h>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <cstddef>

#include "core/strings.h"
#include "server/http/body_reader.h"
#include "server/http/byte_budget.h"
#include "server/http/cors.h"
#include "server/http/head_parser.h"
#include "server/http/http_server.h"
#include "server/http/idle_list.h"
#include "server/http/local_requests.h"
#include "server/http/message.h"
#include "server/http/routes.h"
#include "server/http/time_limit.h"
#include "server/protocol/names.h"

namespace crema::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

// State shared by all connections of a server.
struct ConnectionContext {
  ConnectionContext(const HttpOptions& http_options, HttpHandler& http_handler)
      : options(http_options),
        handler(http_handler),
        buffered(http_options.limits.buffered_bytes) {}

  // Throws RequestError for a head that is refused independent of the handler.
  void Check(const HttpHead& head, bool guest) const {
    if (options.only_local_pages) RefuseForeignPages(head, options.cors_origin);
    if (guest && !AsksForHealth(head.method, head.path)) {
      Refuse(Cause::kUnavailable, "too many connections are open");
    }
  }

  const HttpOptions& options;
  HttpHandler& handler;
  ByteBudget buffered;
  IdleList waiting;         // connections without a complete head
  IdleList guests_waiting;  // the same for guests
  std::atomic<size_t> open{0};
  // Guests: connections above the limit, which may only ask for health
  std::atomic<size_t> guests{0};
  std::atomic<size_t> closing{0};  // connections that were asked to close
  std::atomic<int> busy{0};  // connections with a request, or with an answer that may be incomplete
  std::atomic<bool> draining{false};
};

// Adds one to a count until destruction.
class Counted {
 public:
  explicit Counted(std::atomic<size_t>& count) : count_(&count) { ++count; }
  Counted(Counted&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  ~Counted() {
    if (count_ != nullptr) --*count_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<size_t>* count_;
};

// The read-ahead owns the connection. If no answer is given (out of memory), the destructor ends
// it. Thread safety: one thread at a time; not that of the connection.
template <typename Connection>
class PendingAnswer {
 public:
  explicit PendingAnswer(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)), socket_(connection_->native_socket()) {}
  ~PendingAnswer() {
    if (connection_ == nullptr) return;
    ::shutdown(socket_, SHUT_RDWR);  // wakes the read-ahead; before Lose(), which may close it
    connection_->Lose();
  }
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;

  // May be called once.
  void Give(HttpResponse response) {
    connection_->PostAnswer(std::move(response));
    connection_.reset();
  }

 private:
  std::shared_ptr<Connection> connection_;
  const int socket_;  // stays open until the answer
};

// Handles requests in sequence; each step has its own time limit. Runs on the thread of the
// stream's io_context. An exception (for example out of memory) ends the connection.
template <typename Stream>
class Connection : public std::enable_shared_from_this<Connection<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;
  using Error = boost::system::error_code;

  // A guest may only ask for health, once.
  Connection(Stream&& stream, ConnectionContext& context, bool guest, Counted open, Counted on_lane)
      : open_(std::move(open)),
        on_lane_(std::move(on_lane)),
        stream_(std::move(stream)),
        context_(context),
        guest_(guest),
        waits_(guest ? context.guests_waiting : context.waiting),
        limit_(stream_.get_executor()),
        buffer_(context.options.limits.header_bytes + kReadAhead) {
    boost::system::error_code ignored;
    socket().set_option(tcp::no_delay(true), ignored);
    const tcp::endpoint peer = socket().remote_endpoint(ignored);
    peer_ = peer.address().to_string();
    if (guest_) ++context_.guests;
    context_.handler.ConnectionsChanged(1);
  }
  ~Connection() {
    SetBusy(false);
    if (guest_) --context_.guests;
    context_.handler.ConnectionsChanged(-1);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // On any thread.
  void Begin() {
    EnterWaiting();
    asio::dispatch(stream_.get_executor(), Then([this] { Start(); }));
  }
  // For PendingAnswer, on any thread: delivers the answer, or reports that none will follow.
  void PostAnswer(HttpResponse response) {
    asio::post(stream_.get_executor(), Then([this, response = std::move(response)]() mutable {
                 Answer(std::move(response));
               }));
  }
  void Lose() { lost_ = true; }
  int native_socket() { return socket().native_handle(); }
  // For TimeLimit.
  void CancelWork() {
    Error ignored;
    socket().cancel(ignored);
  }
  // Closes after an exception. While the handler works on an answer, which refers to the socket,
  // only cancels that; it comes soon, and closes.
  void Break() {
    if (cancelled_ == nullptr) return Close();
    gone_ = true;
    *cancelled_ = true;
  }

 private:
  static constexpr std::string_view kEnd = "\r\n\r\n";
  static constexpr size_t kReadAhead = size_t{64} << 10;

  auto Self() { return this->shared_from_this(); }

  // Returns a handler that owns the connection and breaks it if `work` throws: other operations may
  // own it, too.
  template <typename Work>
  auto Then(Work work) {
    return [self = Self(), work = std::move(work)](auto... arguments) mutable {
      try {
        work(arguments...);
      } catch (...) {
        self->Break();
        throw;
      }
    };
  }

  tcp::socket& socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void Start() {
    if constexpr (kTls) {
      Limit(context_.options.head);
      stream_.async_handshake(asio::ssl::stream_base::server, Then([this](Error error) {
                                waits_.Leave();
                                if (!error) Wait();
                              }));
    } else {
      Wait();
    }
  }

  // Marks that a request is being read or answered, for Drain().
  void SetBusy(bool busy) {
    if (busy == busy_) return;
    busy_ = busy;
    context_.busy += busy ? 1 : -1;
  }

  // Limits the current operation.
  void Limit(std::chrono::milliseconds duration) { limit_.Start(this->weak_from_this(), duration); }

  // Waits for the first byte of a request.
  void Wait() {
    head_.reset();
    if (gone_) return Close();
    if (buffer_.size() > 0) return BeginHead();
    if (context_.draining && served_) return Close();
    Limit(context_.options.idle);
    EnterWaiting();
    ReadAhead();
  }

  // From here on the connection may be closed in favour of another.
  void EnterWaiting() {
    waits_.Take([weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      asio::post(self->stream_.get_executor(),
                 [self, closing = Counted(self->context_.closing)]() mutable {
                   self->MakeRoom(std::move(closing));
                 });
    });
  }

  // Reads the first bytes of the next request, also during an answer, which detects a disconnected
  // client.
  void ReadAhead() {
    if (reads_ahead_ || buffer_.size() > 0) return;
    stream_.async_read_some(buffer_.prepare(kFirstRead), Then([this](Error error, size_t n) {
                              reads_ahead_ = false;
                              buffer_.commit(n);
                              HeardAhead(error);
                            }));
    reads_ahead_ = true;
  }

  void HeardAhead(Error error) {
    if (lingers_) return Linger();
    if (waits_.taken()) {
      waits_.Leave();
      return error ? Close() : BeginHead();
    }
    if (lost_) return Close();
    // Aborted: this side cancelled the wait, which also wakes those waiting to write.
    if (!error || error == asio::error::operation_aborted) return;
    gone_ = true;
    if (cancelled_ == nullptr) return;  // the request is being answered
    const auto wait = MayListen(error) ? context_.options.half_closed : kAtOnce;
    limit_.Call(wait, [request = cancelled_] { *request = true; });
  }

  // Returns true if the client may have closed only its own side and be waiting for the answer.
  static bool MayListen(Error error) {
    return error == asio::error::eof || error == asio::ssl::error::stream_truncated;
  }

  // Closes in favour of another connection, unless a request has arrived meanwhile.
  void MakeRoom(Counted closing) {
    if (!waits_.taken()) return;
    closing_.emplace(std::move(closing));
    Close();
  }

  void BeginHead() {
    SetBusy(true);
    started_ = std::chrono::steady_clock::now();
    scanned_ = 0;
    Limit(context_.options.head);
    ReadHead();
  }

  // Reads until the empty line that ends the head.
  void ReadHead() {
    const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    const size_t most = context_.options.limits.header_bytes;
    const size_t end = bytes.find(kEnd, scanned_);
    const size_t length = end == std::string_view::npos ? bytes.size() : end + kEnd.size();
    if (length > most) {
      return Fail(RequestError(Cause::kHeaderTooLarge, "the head of the request is too large"));
    }
    if (end != std::string_view::npos) return OnHead(length);
    scanned_ = bytes.size() - std::min(bytes.size(), kEnd.size() - 1);
    EnterWaiting();
    stream_.async_read_some(buffer_.prepare(kFirstRead), Then([this](Error error, size_t n) {
                              if (error) return FailedToRead(error);
                              buffer_.commit(n);
                              ReadHead();
                            }));
  }

  // An exception of `work` becomes the answer.
  template <typename Work>
  void OrFail(Work&& work) {
    try {
      work();
    } catch (...) {
      cancelled_.reset();  // the handler has not taken the request
      Fail(ToRequestError(std::current_exception()));
    }
  }

  void OnHead(size_t length) {
    waits_.Leave();
    OrFail([&] {
      const auto data = buffer_.data();
      head_ = ParseHead({static_cast<const char*>(data.data()), length});
      buffer_.consume(length);
      context_.Check(*head_, guest_);
      if (IsPreflight(*head_, context_.options.cors_origin)) return AnswerPreflight();
      AdmitBody(context_.handler.Admit(*head_));
    });
  }

  // Without tokens, which browsers do not send here. A preflight has no body.
  void AnswerPreflight() {
    id_ = MakeRequestId();
    Write(PreflightResponse(), head_->keep_alive && !head_->content_length && !head_->chunked);
  }

  void AdmitBody(size_t most) {
    const std::string_view expect = head_->Find("expect");
    if (!expect.empty() && !beast::iequals({expect.data(), expect.size()}, "100-continue")) {
      Refuse(Cause::kExpectation, "the expectation is not 100-continue");
    }
    reader_.emplace(*head_, most, context_.buffered);
    TakeBody();
    if (!expect.empty() && !reader_->done() && buffer_.size() == 0) return Encourage();
    ReadBody();
  }

  void TakeBody() {
    const auto data = buffer_.data();
    buffer_.consume(reader_->Take({static_cast<const char*>(data.data()), data.size()}));
  }

  void Encourage() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    Limit(context_.options.answer);
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      Then([this](Error error, size_t) {
                        if (error) return Close();
                        ReadBody();
                      }));
  }

  void ReadBody() {
    if (reader_->done()) return Dispatch();
    Limit(context_.options.body);
    ReadMore();
  }

  void ReadMore() {
    stream_.async_read_some(buffer_.prepare(kBodyRead), Then([this](Error error, size_t n) {
                              if (error) return FailedToRead(error);
                              buffer_.commit(n);
                              OrFail([&] {
                                TakeBody();
                                if (reader_->done()) return Dispatch();
                                ReadMore();
                              });
                            }));
  }

  void Dispatch() {
    limit_.Stop();
    HttpRequest request;
    const std::string_view given = head_->Find("x-request-id");
    id_ = IsRequestId(given) ? std::string(given) : MakeRequestId();
    request.id = id_;
    request.head = *head_;
    request.body = std::make_shared<const std::string>(std::move(reader_->body()));
    cancelled_ = std::make_shared<std::atomic<bool>>(false);
    request.cancelled = cancelled_;
    request_bytes_ = request.body->size();
    ReadAhead();
    context_.handler.Handle(std::move(request),
                            [answer = std::make_shared<PendingAnswer<Connection>>(Self())](
                                HttpResponse r) { answer->Give(std::move(r)); });
  }

  void Answer(HttpResponse response) {
    cancelled_.reset();
    Write(std::move(response), head_->keep_alive && !guest_);
  }

  void FailedToRead(Error error) {
    if (limit_.passed() && error == asio::error::operation_aborted) {
      return Fail(RequestError(Cause::kSlowClient, "the request did not arrive in time"));
    }
    // The client has closed its side.
    if (error == asio::error::eof) {
      return Fail(RequestError(Cause::kBadRequest, "the request ends in its midst"));
    }
    Close();
  }

  // Closes the connection, since the bytes after a refused request cannot be delimited.
  void Fail(const RequestError& error) {
    if (id_.empty()) id_ = MakeRequestId();
    Write(context_.handler.Explain(error), false);
  }

  // Counts the bytes of the answer until the client has received them.
  void LeaseAnswer(HttpResponse* response) {
    lease_ = context_.buffered.Take(response->body.size());
    if (lease_) return;
    *response = context_.handler.Explain(
        RequestError(Cause::kUnavailable, "too many answers wait to be taken"));
  }

  void Write(HttpResponse response, bool keep_alive) {
    waits_.Leave();
    reader_.reset();
    LeaseAnswer(&response);
    const std::string& origin = context_.options.cors_origin;
    if (head_ && !origin.empty()) AllowOrigin(*head_, origin, &response);
    const bool keep = keep_alive && !context_.draining;
    const bool body = !head_ || head_->method != "HEAD";
    HttpLogEntry entry;
    entry.head = head_ ? &*head_ : nullptr;
    entry.id = id_;
    entry.peer = peer_;
    entry.status = response.status;
    entry.request_bytes = request_bytes_;
    entry.response_bytes = response.body.size();
    entry.duration = std::chrono::steady_clock::now() - started_;
    context_.handler.Log(entry);
    out_head_ = WriteHead(response, id_, keep);
    out_body_ = body ? std::move(response.body) : std::string();
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(out_head_),
                                                       asio::buffer(out_body_)};
    Limit(context_.options.answer);
    asio::async_write(stream_, buffers, Then([this, keep](Error error, size_t) {
                        lease_.reset();
                        id_.clear();
                        request_bytes_ = 0;
                        out_body_ = {};
                        served_ = true;
                        if (error) return Close();
                        if (!keep) return Linger();
                        SetBusy(false);
                        Wait();
                      }));
  }

  // Keeps reading for a moment: closing with unread data would discard the answer.
  void Linger() {
    lingers_ = true;
    if (reads_ahead_) return CancelWork();  // returns here
    constexpr std::chrono::milliseconds kLinger{1000};
    Limit(kLinger);
    if constexpr (kTls) {
      stream_.async_shutdown(Then([this](Error) { Close(); }));
    } else {
      Error ignored;
      socket().shutdown(tcp::socket::shutdown_send, ignored);
      lingering_ = size_t{1} << 20;
      Discard();
    }
  }

  void Discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kFirstRead), Then([this](Error error, size_t n) {
                              if (error || n > lingering_ || limit_.passed()) return Close();
                              lingering_ -= n;
                              Discard();
                            }));
  }

  void Close() {
    SetBusy(false);
    limit_.Stop();
    Error ignored;
    socket().close(ignored);
  }

  static constexpr std::chrono::milliseconds kAtOnce{0};
  static constexpr size_t kFirstRead = size_t{16} << 10;
  static constexpr size_t kBodyRead = size_t{32} << 10;

  const Counted open_;     // in the context
  const Counted on_lane_;  // on the thread
  Stream stream_;
  ConnectionContext& context_;
  const bool guest_;
  IdlePlace waits_;  // held while there is no complete head
  TimeLimit limit_;
  beast::flat_buffer buffer_;
  std::optional<BodyReader> reader_;
  std::optional<HttpHead> head_;
  std::optional<ByteBudget::Lease> lease_;
  std::optional<Counted> closing_;
  std::string id_;
  std::string peer_;
  std::string out_head_;
  std::string out_body_;
  std::chrono::steady_clock::time_point started_;
  size_t request_bytes_ = 0;
  size_t scanned_ = 0;  // bytes of an incomplete head already searched
  size_t lingering_ = 0;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // of the request being answered
  bool reads_ahead_ = false;
  bool gone_ = false;  // the client has closed the connection, or its side of it
  bool lingers_ = false;
  std::atomic<bool> lost_{false};  // no answer will follow
  bool busy_ = false;
  bool served_ = false;
};

}  // namespace crema::server
