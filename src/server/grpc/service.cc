#include "server/grpc/service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/strings.h"
#include "server/grpc/call.h"
#include "server/grpc/convert.h"
#include "server/protocol/load_json.h"
#include "server/protocol/names.h"

namespace crema::server {
namespace {

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

}  // namespace

grpc::Status ToStatus(const RequestError& error) {
  const auto code = [&] {
    switch (error.cause()) {
      case Cause::kUnauthorized:
        return grpc::StatusCode::UNAUTHENTICATED;
      case Cause::kForbidden:
        return grpc::StatusCode::PERMISSION_DENIED;
      case Cause::kNotFound:
        return grpc::StatusCode::NOT_FOUND;
      case Cause::kInternal:
        return grpc::StatusCode::INTERNAL;
      case Cause::kQueueFull:
        return grpc::StatusCode::RESOURCE_EXHAUSTED;
      case Cause::kQueueTimeout:
        return grpc::StatusCode::DEADLINE_EXCEEDED;
      case Cause::kCancelled:
        return grpc::StatusCode::CANCELLED;
      case Cause::kUnavailable:
        return grpc::StatusCode::UNAVAILABLE;
      default:
        return grpc::StatusCode::INVALID_ARGUMENT;
    }
  };
  return {code(), error.message()};
}

grpc::Status InferenceService::Refusal(const std::exception_ptr& failure) {
  const RequestError error = ToRequestError(failure);
  service_.Refused(error);
  return ToStatus(error);
}

void InferenceService::Admit(const Context& context, Door door) const {
  if (door == Door::kOpen) return;
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range("authorization");
  if (first != last && std::next(first) != last) {
    Refuse(Cause::kBadRequest, "authorization appears twice");
  }
  const std::string_view given = first == last
                                     ? std::string_view()
                                     : std::string_view(first->second.data(), first->second.size());
  if (door == Door::kAdmin) {
    service_.RequireAdmin(given);
  } else {
    service_.RequireInference(given);
  }
  service_.RequireNotEnding();
}

InferenceService::Reactor* InferenceService::Answer(Context* context, Door door,
                                                    const std::function<void()>& body) {
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

std::shared_ptr<ModelVersion> InferenceService::Find(const std::string& model,
                                                     const std::string& version) const {
  if (!IsModelName(model)) Refuse(Cause::kBadRequest, "the name can be none of a model");
  const int64_t number = ParseVersion(version);
  if (number == 0 && !version.empty()) {
    Refuse(Cause::kBadRequest, "the version is no number from 1 on");
  }
  return service_.Find(model, number);
}

InferenceService::Reactor* InferenceService::ServerLive(Context* context,
                                                        const inference::ServerLiveRequest*,
                                                        inference::ServerLiveResponse* response) {
  return Answer(context, Door::kOpen, [&] { response->set_live(true); });
}

InferenceService::Reactor* InferenceService::ServerReady(Context* context,
                                                         const inference::ServerReadyRequest*,
                                                         inference::ServerReadyResponse* response) {
  return Answer(context, Door::kOpen, [&] { response->set_ready(service_.ready); });
}

InferenceService::Reactor* InferenceService::ModelReady(Context* context,
                                                        const inference::ModelReadyRequest* request,
                                                        inference::ModelReadyResponse* response) {
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

InferenceService::Reactor* InferenceService::ServerMetadata(
    Context* context, const inference::ServerMetadataRequest*,
    inference::ServerMetadataResponse* response) {
  return Answer(context, Door::kInference, [&] {
    response->set_name("crema");
    response->set_version(service_.version);
    for (const char* name :
         {"classification", "model_repository", "model_configuration", "statistics"}) {
      response->add_extensions(name);
    }
  });
}

InferenceService::Reactor* InferenceService::ModelMetadata(
    Context* context, const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  return Answer(context, Door::kInference, [&] {
    const auto model = Find(request->name(), request->version());
    DescribeModel(*model, service_.table.ReadyVersions(request->name()), response);
  });
}

InferenceService::Reactor* InferenceService::ModelInfer(Context* context,
                                                        const inference::ModelInferRequest* request,
                                                        inference::ModelInferResponse* response) {
  auto* reactor = new CancellableReactor(service_);
  const auto call = std::make_shared<GrpcCall>(service_, reactor);
  try {
    Admit(*context, Door::kInference);
    const auto model = Find(request->model_name(), request->model_version());
    InferRequest infer = FromMessage(*request, service_.limits);
    infer.cancelled = reactor->cancelled();
    LimitWait(*context, &infer);
    InferRequest wishes;
    wishes.id = infer.id;
    wishes.outputs = infer.outputs;
    // `done` must not own the version, which outlives its accepted requests.
    const ModelVersion* asked = model.get();
    model->Infer(std::move(infer), [this, asked, call, response,
                                    wishes = std::move(wishes)](const InferAnswer& answer) {
      grpc::Status status;
      try {
        if (answer.failure) throw RequestError(*answer.failure);
        ToMessage(wishes, answer.reply, asked->description().labels, response);
      } catch (const RequestError& error) {
        // Cancellations are counted when they happen.
        if (error.cause() != Cause::kCancelled) service_.Refused(error);
        status = ToStatus(error);
      } catch (...) {
        status = Refusal(std::current_exception());
      }
      call->Finish(status);
    });
  } catch (...) {
    call->Finish(Refusal(std::current_exception()));
  }
  return reactor;
}

InferenceService::Reactor* InferenceService::ModelConfig(
    Context* context, const inference::ModelConfigRequest* request,
    inference::ModelConfigResponse* response) {
  return Answer(context, Door::kInference, [&] {
    DescribeConfig(*Find(request->name(), request->version()), response->mutable_config());
  });
}

InferenceService::Reactor* InferenceService::ModelStatistics(
    Context* context, const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
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

InferenceService::Reactor* InferenceService::RepositoryIndex(
    Context* context, const inference::RepositoryIndexRequest* request,
    inference::RepositoryIndexResponse* response) {
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

InferenceService::Reactor* InferenceService::Change(Context* context,
                                                    std::function<void(Repository&)> change) {
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

InferenceService::Reactor* InferenceService::RepositoryModelLoad(
    Context* context, const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse*) {
  return Change(context, [request](Repository& repository) {
    const std::string& name = request->model_name();
    if (!IsModelName(name)) Refuse(Cause::kBadRequest, "the name can be none of a model");
    for (const auto& parameter : request->parameters()) CheckLoadParameter(parameter.first);
    repository.Load(name);
  });
}

InferenceService::Reactor* InferenceService::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse*) {
  return Change(context, [name = request->model_name()](Repository& repository) {
    if (!IsModelName(name)) Refuse(Cause::kBadRequest, "the name can be none of a model");
    repository.Unload(name);
  });
}

}  // namespace crema::server
