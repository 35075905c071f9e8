#include "server/grpc/grpc_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "format/file.h"
#include "inference.grpc.pb.h"
#include "server/grpc/acceptor.h"
#include "server/grpc/convert.h"
#include "server/model/image_file.h"
#include "server/protocol/load_json.h"
#include "server/protocol/names.h"
#include "server/service.h"
#include "server/work_pool.h"

namespace crema::server {
namespace {

std::shared_ptr<grpc::ServerCredentials> Credentials(const GrpcOptions& options) {
  if (options.tls_cert.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({ReadFile(options.tls_key), ReadFile(options.tls_cert)});
  return grpc::SslServerCredentials(tls);
}

// Deletes itself.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }

 private:
  void OnDone() override { delete this; }
};

// Answers UNIMPLEMENTED with a message that names the method. Thread safety: any number of threads.
class UnsupportedCalls final : public grpc::CallbackGenericService {
 public:
  explicit UnsupportedCalls(Service& service) : service_(service) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    constexpr size_t kLongest = 128;
    constexpr auto kCode = grpc::StatusCode::UNIMPLEMENTED;
    service_.metrics.Answered("grpc", kCode);
    return new Refusal(
        {kCode, StrCat("this server has no method ", context->method().substr(0, kLongest),
                       "; it has no streams, no shared memory, no log and trace "
                       "settings")});
  }

 private:
  Service& service_;
};

// Ends a call once and counts it. A call dropped for lack of memory ends as internal error. Thread
// safety: one thread at a time.
class GrpcCall {
 public:
  GrpcCall(Service& service, grpc::ServerUnaryReactor* reactor)
      : service_(service), reactor_(reactor), under_way_(service) {}
  ~GrpcCall() {
    if (reactor_ != nullptr) Finish({grpc::StatusCode::INTERNAL, "internal error"});
  }
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  void Finish(const grpc::Status& status) {
    if (reactor_ == nullptr) return;
    try {
      service_.metrics.Answered("grpc", static_cast<int>(status.error_code()));
    } catch (...) {
      // The call is not counted.
    }
    std::exchange(reactor_, nullptr)->Finish(status);
    under_way_.End();
  }

 private:
  Service& service_;
  grpc::ServerUnaryReactor* reactor_;
  InFlight under_way_;
};

// Reacts to cancellation by the client or its deadline. Deletes itself.
class CancellableReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit CancellableReactor(Service& service) : service_(service) {}

  std::shared_ptr<const std::atomic<bool>> cancelled() const { return cancelled_; }

 private:
  void OnCancel() override {
    if (cancelled_->exchange(true)) return;
    try {
      service_.Refused({Cause::kCancelled, "the client gave the call up"});
    } catch (...) {
      // The call is not counted.
    }
  }
  void OnDone() override { delete this; }

  Service& service_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Reduces the wait to the client's remaining deadline.
void LimitWait(const grpc::CallbackServerContext& context, InferRequest* request) {
  using Clock = std::chrono::system_clock;
  if (context.deadline() == Clock::time_point::max()) return;
  const int64_t left =
      std::chrono::duration_cast<std::chrono::microseconds>(context.deadline() - Clock::now())
          .count();
  if (left <= 0) Refuse(Cause::kQueueTimeout, "the deadline of the call is over");
  const int64_t asked = request->timeout_us.value_or(0);
  request->timeout_us = asked > 0 ? std::min(asked, left) : left;
}

grpc::Status ToStatus(const RequestError& error) {
  using Code = grpc::StatusCode;
  constexpr std::pair<Cause, Code> kCodes[] = {{Cause::kUnauthorized, Code::UNAUTHENTICATED},
                                               {Cause::kForbidden, Code::PERMISSION_DENIED},
                                               {Cause::kNotFound, Code::NOT_FOUND},
                                               {Cause::kInternal, Code::INTERNAL},
                                               {Cause::kQueueFull, Code::RESOURCE_EXHAUSTED},
                                               {Cause::kQueueTimeout, Code::DEADLINE_EXCEEDED},
                                               {Cause::kCancelled, Code::CANCELLED},
                                               {Cause::kUnavailable, Code::UNAVAILABLE}};
  for (const auto& [cause, code] : kCodes) {
    if (cause == error.cause()) return {code, error.message()};
  }
  return {Code::INVALID_ARGUMENT, error.message()};
}

// Answers on threads of gRPC; inference ends on threads of the model. Thread safety: any number of
// threads.
class InferenceService final : public inference::GRPCInferenceService::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  explicit InferenceService(server::Service& service)
      : service_(service), pool_(1, 256), images_(1, 256) {}
  // Finishes deferred work.
  void Stop() {
    pool_.Stop();
    images_.Stop();
  }

  Reactor* ServerLive(Context* context, const inference::ServerLiveRequest*,
                      inference::ServerLiveResponse* response) override {
    return Answer(context, Door::kOpen, [&] { response->set_live(true); });
  }

  Reactor* ServerReady(Context* context, const inference::ServerReadyRequest*,
                       inference::ServerReadyResponse* response) override {
    return Answer(context, Door::kOpen, [&] { response->set_ready(service_.ready); });
  }

  Reactor* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override {
    return Answer(context, Door::kInference, [&] {
      try {
        Find(request->name(), request->version());
        response->set_ready(true);
      } catch (const RequestError& error) {
        if (error.cause() != Cause::kUnavailable && error.cause() != Cause::kNotFound) throw;
        response->set_ready(false);
      }
    });
  }

  Reactor* ServerMetadata(Context* context, const inference::ServerMetadataRequest*,
                          inference::ServerMetadataResponse* response) override {
    return Answer(context, Door::kInference, [&] {
      response->set_name("crema");
      response->set_version(service_.version);
      for (const char* name :
           {"classification", "model_repository", "model_configuration", "statistics"}) {
        response->add_extensions(name);
      }
    });
  }

  Reactor* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override {
    return Answer(context, Door::kInference, [&] {
      const auto model = Find(request->name(), request->version());
      DescribeModel(*model, service_.table.ReadyVersions(request->name()), response);
    });
  }

  Reactor* ModelInfer(Context* context, const inference::ModelInferRequest* request,
                      inference::ModelInferResponse* response) override {
    auto* reactor = new CancellableReactor(service_);
    const auto call = std::make_shared<GrpcCall>(service_, reactor);
    try {
      Admit(*context, Door::kInference);
      const auto model = Find(request->model_name(), request->model_version());
      auto infer = std::make_shared<InferRequest>(FromMessage(*request, service_.limits));
      infer->cancelled = reactor->cancelled();
      LimitWait(*context, infer.get());
      if (!HasImages(*infer)) {
        Run(*model, std::move(*infer), call, response);
      } else {
        images_.Submit([this, model, infer, call, response] {
          try {
            DecodeImages(model->description(), model->batching().max_batch, service_.limits,
                         infer.get());
            Run(*model, std::move(*infer), call, response);
          } catch (...) {
            call->Finish(Refusal(std::current_exception()));
          }
        });
      }
    } catch (...) {
      call->Finish(Refusal(std::current_exception()));
    }
    return reactor;
  }

  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override {
    return Answer(context, Door::kInference, [&] {
      DescribeConfig(*Find(request->name(), request->version()), response->mutable_config());
    });
  }

  Reactor* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                           inference::ModelStatisticsResponse* response) override {
    return Answer(context, Door::kInference, [&] {
      if (!request->name().empty()) {
        DescribeStatistics(*Find(request->name(), request->version()), response->add_model_stats());
        return;
      }
      for (const auto& model : service_.table.AllReady()) {
        DescribeStatistics(*model, response->add_model_stats());
      }
    });
  }

  Reactor* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                           inference::RepositoryIndexResponse* response) override {
    return Answer(context, Door::kInference, [&] {
      for (const VersionStatus& row : service_.table.Status()) {
        if (request->ready() && row.state != VersionState::kReady) continue;
        auto* model = response->add_models();
        model->set_name(row.model);
        model->set_version(std::to_string(row.version));
        model->set_state(std::string(ToString(row.state)));
        model->set_reason(row.reason);
      }
    });
  }

  Reactor* RepositoryModelLoad(Context* context,
                               const inference::RepositoryModelLoadRequest* request,
                               inference::RepositoryModelLoadResponse*) override {
    return Change(context, [request](Repository& repository) {
      const std::string& name = request->model_name();
      if (!IsModelName(name)) Refuse(Cause::kBadRequest, "the name can be none of a model");
      for (const auto& parameter : request->parameters()) CheckLoadParameter(parameter.first);
      repository.Load(name);
    });
  }

  Reactor* RepositoryModelUnload(Context* context,
                                 const inference::RepositoryModelUnloadRequest* request,
                                 inference::RepositoryModelUnloadResponse*) override {
    return Change(context, [name = request->model_name()](Repository& repository) {
      if (!IsModelName(name)) Refuse(Cause::kBadRequest, "the name can be none of a model");
      repository.Unload(name);
    });
  }

 private:
  enum class Door { kOpen, kInference, kAdmin };

  // Counts the refusal and returns its status. Cancellations are counted when they happen.
  grpc::Status Refusal(const std::exception_ptr& failure) {
    const RequestError error = ToRequestError(failure);
    if (error.cause() != Cause::kCancelled) service_.Refused(error);
    return ToStatus(error);
  }

  void Admit(const Context& context, Door door) const {
    if (door == Door::kOpen) return;
    const auto& metadata = context.client_metadata();
    const auto [first, last] = metadata.equal_range("authorization");
    if (first != last && std::next(first) != last) {
      Refuse(Cause::kBadRequest, "authorization appears twice");
    }
    const std::string_view given =
        first == last ? std::string_view()
                      : std::string_view(first->second.data(), first->second.size());
    if (door == Door::kAdmin) {
      service_.RequireAdmin(given);
    } else {
      service_.RequireInference(given);
    }
    service_.RequireNotEnding();
  }

  // Runs `body` on this thread; an exception becomes the status.
  Reactor* Answer(Context* context, Door door, const std::function<void()>& body) {
    Reactor* reactor = context->DefaultReactor();
    GrpcCall call(service_, reactor);
    grpc::Status status;
    try {
      Admit(*context, door);
      body();
    } catch (...) {
      status = Refusal(std::current_exception());
    }
    call.Finish(status);
    return reactor;
  }

  Reactor* Change(Context* context, std::function<void(Repository&)> change) {
    Reactor* reactor = context->DefaultReactor();
    const auto call = std::make_shared<GrpcCall>(service_, reactor);
    try {
      Admit(*context, Door::kAdmin);
      Repository& repository = service_.RepositoryOrRefuse();
      pool_.Submit([call, &repository, change = std::move(change)] {
        grpc::Status status;
        try {
          change(repository);
        } catch (...) {
          status = ToStatus(ToRequestError(std::current_exception()));
        }
        call->Finish(status);
      });
    } catch (...) {
      call->Finish(ToStatus(ToRequestError(std::current_exception())));
    }
    return reactor;
  }

  void Run(ModelVersion& model, InferRequest infer, const std::shared_ptr<GrpcCall>& call,
           inference::ModelInferResponse* response) {
    InferRequest wishes;
    wishes.id = infer.id;
    wishes.outputs = infer.outputs;
    // `done` must not own the version, which outlives its accepted requests.
    const ModelVersion* asked = &model;
    model.Infer(std::move(infer), [this, asked, call, response,
                                   wishes = std::move(wishes)](const InferAnswer& answer) {
      grpc::Status status;
      try {
        if (answer.failure) throw RequestError(*answer.failure);
        ToMessage(wishes, answer.reply, asked->description().labels, response);
      } catch (...) {
        status = Refusal(std::current_exception());
      }
      call->Finish(status);
    });
  }

  std::shared_ptr<ModelVersion> Find(const std::string& model, const std::string& version) const {
    if (!IsModelName(model)) Refuse(Cause::kBadRequest, "the name can be none of a model");
    const int64_t number = ParseVersion(version);
    if (number == 0 && !version.empty()) {
      Refuse(Cause::kBadRequest, "the version is not a number from 1 on");
    }
    return service_.Find(model, number);
  }

  server::Service& service_;
  WorkPool pool_;
  WorkPool images_;  // separate, since loading is slow and must not delay images
};

class CallbackServer final : public GrpcServer {
 public:
  CallbackServer(const GrpcOptions& options, Service& service)
      : service_(service),
        inference_(service),
        unsupported_(service),
        acceptor_(options.host, options.port, options.connections) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    sockets_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        Credentials(options));
    builder.RegisterService(&inference_);
    builder.RegisterCallbackGenericService(&unsupported_);
    SetLimits(service.limits, &builder);
    server_ = builder.BuildAndStart();
    if (!server_) {
      Fail(ErrorCode::kIoFailure, "gRPC did not start: look for its own lines in the log");
    }
    acceptor_.Start([this](int socket) { HandOver(socket); },
                    [this](bool accepts) { service_.SetGrpcAccepts(accepts); });
    service.OnReady(
        [this](bool ready) { server_->GetHealthCheckService()->SetServingStatus(ready); });
  }
  ~CallbackServer() override {
    service_.OnReady(nullptr);
    acceptor_.Stop();
    inference_.Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_->Wait();
  }
  CallbackServer(const CallbackServer&) = delete;
  CallbackServer& operator=(const CallbackServer&) = delete;

  int port() const override { return acceptor_.port(); }
  void StopAccepting() override { acceptor_.Stop(); }

 private:
  static void SetLimits(const RequestLimits& limits, grpc::ServerBuilder* builder) {
    // Size of a message besides its tensors.
    constexpr size_t kRest = size_t{1} << 20;
    builder->SetMaxReceiveMessageSize(static_cast<int>(limits.body_bytes + kRest));
    // gRPC applies the length limit only after decompressing.
    for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
      builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
    }
    builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits.header_bytes));
    builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
    builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60000);
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60000);
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
    grpc::ResourceQuota quota("crema");
    quota.Resize(limits.buffered_bytes);
    builder->SetResourceQuota(quota);
  }

  void HandOver(int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    sockets_->HandleNewConnection(&connection);
  }

  Service& service_;
  InferenceService inference_;
  UnsupportedCalls unsupported_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> sockets_;
  std::unique_ptr<grpc::Server> server_;
  Acceptor acceptor_;  // last: its thread uses the others
};

}  // namespace

bool HasGrpc() { return true; }

std::string GrpcVersion() { return grpc::Version(); }

std::unique_ptr<GrpcServer> MakeGrpcServer(const GrpcOptions& options, Service& service) {
  if (options.port < 0) return nullptr;
  return std::make_unique<CallbackServer>(options, service);
}

}  // namespace crema::server
