#include "server/server.h"

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "server/grpc/grpc_server.h"
#include "server/security/file_watch.h"

namespace crema::server {

class Server::Parts {
 public:
  Parts(const ServerOptions& options, Service& service)
      : service_(service),
        api_(service, options.api, options.access_log),
        http_(std::make_unique<HttpServer>(options.http, api_)),
        grpc_(MakeGrpcServer(options.grpc, service)),
        watch_(std::make_unique<FileWatch>(FilesToWatch(options), options.file_poll, service.log)) {
  }

  // Destroys everything that answers before the transport of answers.
  ~Parts() {
    service_.ending = true;
    watch_.reset();
    if (repository_) repository_->Stop();
    api_.Stop();
    service_.table.CancelAll();
    service_.table.Clear();
    grpc_.reset();
    http_.reset();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const HttpServer& http() const { return *http_; }
  const GrpcServer* grpc() const { return grpc_.get(); }

  void Watch(const RepositoryOptions& options, LoadExecutable load) {
    repository_ =
        std::make_unique<Repository>(options, std::move(load), service_.table, service_.log);
    service_.repository = repository_.get();
    repository_->Start();
  }

  bool Drain(std::chrono::milliseconds most, std::chrono::milliseconds grace) {
    const Clock::time_point end = Clock::now() + most;
    http_->Drain();
    std::this_thread::sleep_for(std::min(most, grace));
    service_.ending = true;
    http_->StopAccepting();
    if (grpc_) grpc_->StopAccepting();
    const bool quiet = AwaitQuiet(end);
    if (!quiet) service_.table.CancelAll();
    api_.FlushLog(LineWriter::kPatience);
    return quiet;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<WatchedFiles> FilesToWatch(const ServerOptions& options) {
    std::vector<WatchedFiles> files;
    const auto tokens = [&](const std::string& path, SharedTokens* place) {
      if (path.empty()) return;
      files.push_back({{path}, [path, place] { place->Set(TokenSet::FromFile(path)); }});
    };
    tokens(options.inference_token_file, &service_.inference_tokens);
    tokens(options.admin_token_file, &service_.admin_tokens);
    if (!options.http.tls_cert.empty()) {
      files.push_back(
          {{options.http.tls_cert, options.http.tls_key}, [this] { http_->ReloadTls(); }});
    }
    return files;
  }

  // Waits for a quiet moment: requests just sent may not have been read yet.
  bool AwaitQuiet(Clock::time_point end) const {
    constexpr std::chrono::milliseconds kMoment{50};
    Clock::time_point last_busy = Clock::now();
    for (;;) {
      const Clock::time_point now = Clock::now();
      if (service_.in_flight > 0 || http_->busy()) last_busy = now;
      if (now - last_busy >= kMoment) return true;
      if (now >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  Service& service_;
  HttpApi api_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<FileWatch> watch_;
  std::unique_ptr<Repository> repository_;
};

Server::Server(const ServerOptions& options, LogSink& log)
    : service_(std::make_unique<Service>(options.http.limits, log)) {
  service_->inference_tokens.Set(options.inference_tokens);
  service_->admin_tokens.Set(options.admin_tokens);
  service_->version = options.version;
  service_->SetReady(false);
  parts_ = std::make_unique<Parts>(options, *service_);
}

Server::~Server() {
  service_->SetReady(false);
  parts_.reset();
}

void Server::ServeModel(const std::string& name, std::shared_ptr<const Executable> executable,
                        const BatcherOptions& batching) {
  const auto metrics = service_->table.MetricsOf(name);
  service_->table.SetLoading(name, 1);
  auto model = std::make_shared<ModelVersion>(name, 1, std::move(executable), batching, metrics);
  const std::string line = ReadyLine(*model);
  service_->table.Publish(std::move(model));
  metrics->LoadEnded(true);
  service_->log.Write(Severity::kInfo, line);
  BecomeReady();
}

void Server::ServeRepository(const RepositoryOptions& options, LoadExecutable load) {
  parts_->Watch(options, std::move(load));
  BecomeReady();
}

void Server::BecomeReady() {
  const std::lock_guard lock(mutex_);
  if (!draining_) service_->SetReady(true);
}

uint16_t Server::http_port() const { return parts_->http().port(); }

int Server::grpc_port() const { return parts_->grpc() == nullptr ? -1 : parts_->grpc()->port(); }

bool Server::Drain(std::chrono::milliseconds most, std::chrono::milliseconds grace) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    service_->SetReady(false);
  }
  return parts_->Drain(most, grace);
}

bool GrpcBoundsFloods(std::string_view version) {
  const std::vector<std::string> parts = Split(version, '.');
  const auto number = [&](size_t i) {
    int value = 0;
    if (i < parts.size()) {
      std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), value);
    }
    return value;
  };
  return std::pair(number(0), number(1)) >= std::pair(1, 60);
}

}  // namespace crema::server
