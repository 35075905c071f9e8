#include "report/watch.h"

#include "core/error.h"

#ifdef CREMA_HAVE_SERVER
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <utility>

#include "core/strings.h"
#include "report/clock.h"
#include "report/page.h"
#include "server/http/http_server.h"

namespace crema::tools {
namespace {

using server::HttpRequest;
using server::HttpResponse;

// Answers GET / with the page. Thread safety: any number of threads.
class PageHandler final : public server::HttpHandler {
 public:
  explicit PageHandler(const WatchOptions& options) : options_(options) {}

  size_t Admit(const server::HttpHead& head) override {
    if (head.method != "GET" && head.method != "HEAD") {
      throw server::RequestError(server::Cause::kMethodNotAllowed, "only GET is answered here", {},
                                 "GET, HEAD");
    }
    if (head.path != "/") server::Refuse(server::Cause::kNotFound, "the page is /");
    return 0;
  }

  void Handle(HttpRequest request, server::HttpRespond respond) override {
    try {
      respond(Page(request.head.Find("if-none-match")));
    } catch (...) {
      respond(Explain(server::ToRequestError(std::current_exception())));
    }
  }

  HttpResponse Explain(const server::RequestError& error) override {
    // The server names a flag of `serve` for it.
    const bool foreign = error.cause() == server::Cause::kForbidden;
    HttpResponse response{.status = server::HttpStatus(error.cause()),
                          .content_type = "text/plain; charset=utf-8",
                          .body = foreign ? "this page is for browsers of this machine: open "
                                            "http://127.0.0.1 with its port"
                                          : error.message()};
    if (!error.allow().empty()) response.fields.emplace_back("Allow", error.allow());
    return response;
  }

  // An answer was sent.
  void Log(const server::HttpLogEntry& entry) override {
    if (entry.status != 200 && entry.status != 304) return;
    const std::lock_guard lock(looks_mutex_);
    last_look_ = Clock::now();
    ++looks_;
    looked_.notify_all();
  }
  void ConnectionsChanged(int /*change*/) override {}
  void ReportFailure(const std::exception_ptr& /*failure*/) noexcept override {}

  // If a browser follows the page, waits until it has asked once more, so that it shows the end.
  void AwaitLastLook() {
    constexpr std::chrono::seconds kFollows{5};
    constexpr std::chrono::seconds kMost{3};  // longer than a page waits between two questions
    std::unique_lock lock(looks_mutex_);
    if (looks_ == 0 || Clock::now() - last_look_ > kFollows) return;
    looked_.wait_for(lock, kMost, [this, before = looks_] { return looks_ > before; });
  }

 private:
  using Clock = std::chrono::steady_clock;

  HttpResponse Page(std::string_view known_tag) {
    const std::lock_guard lock(mutex_);
    // The state is taken first: what changes while the page is made shows the next time.
    if (std::string state = StateOfRuns(options_.folders); page_.empty() || state != state_) {
      page_ = Make();
      state_ = std::move(state);
      tag_ = StrCat("\"", ++version_, "-", started_, "\"");
    }
    HttpResponse response{.content_type = "text/html; charset=utf-8",
                          .fields = {{"ETag", tag_},
                                     {"Cache-Control", "no-store"},
                                     {"Content-Security-Policy", "frame-ancestors 'none'"}}};
    if (known_tag == tag_) {
      response.status = 304;
    } else {
      response.body = page_;
    }
    return response;
  }

  std::string Make() const {
    return ReportPage(options_.title, ReadRuns(options_.folders, RunOrder::kByName), PageUse::kLive,
                      UnixTime());
  }

  const WatchOptions& options_;
  const int64_t started_ = static_cast<int64_t>(UnixTime());
  std::mutex mutex_;
  std::string state_;
  std::string page_;
  std::string tag_;
  int64_t version_ = 0;
  std::mutex looks_mutex_;
  std::condition_variable looked_;
  Clock::time_point last_look_;
  int64_t looks_ = 0;
};

void AwaitEof() {
  char bytes[256];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count == 0 || (count < 0 && errno != EINTR)) return;
  }
}

// Before other threads exist, so that they block these signals, too.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void PrintUrl(uint16_t port) {
  std::printf("http://127.0.0.1:%d/\n", port);
  std::fflush(stdout);
}

}  // namespace

void WatchRuns(const WatchOptions& options) {
  const sigset_t end_signals = options.until_eof ? sigset_t{} : BlockEndSignals();
  PageHandler handler(options);
  server::HttpOptions http;
  http.port = static_cast<uint16_t>(options.port);
  http.connections = 64;
  http.only_local_pages = true;
  const server::HttpServer server(http, handler);
  PrintUrl(server.port());
  int signal = 0;
  if (options.until_eof) {
    AwaitEof();
    handler.AwaitLastLook();
  } else {
    sigwait(&end_signals, &signal);
  }
}

}  // namespace crema::tools

#else

namespace crema::tools {

void WatchRuns(const WatchOptions& /*options*/) {
  Fail(ErrorCode::kUnsupported,
       "--watch: this build is without `serve` (docs/dependencies.md: Boost, RapidJSON, "
       "prometheus-cpp, OpenSSL); write pages with -o instead");
}

}  // namespace crema::tools

#endif
