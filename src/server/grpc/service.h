// Implements the service of inference.proto. For grpc_server.cc.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "inference.grpc.pb.h"
#include "server/service.h"
#include "server/work_pool.h"

namespace crema::server {

grpc::Status ToStatus(const RequestError& error);

// Answers on threads of gRPC; inference ends on threads of the model. Thread safety: any number of
// threads.
class InferenceService final : public inference::GRPCInferenceService::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  explicit InferenceService(server::Service& service) : service_(service), pool_(1, 256) {}
  // Finishes deferred work.
  void Stop() { pool_.Stop(); }

  Reactor* ServerLive(Context* context, const inference::ServerLiveRequest* request,
                      inference::ServerLiveResponse* response) override;
  Reactor* ServerReady(Context* context, const inference::ServerReadyRequest* request,
                       inference::ServerReadyResponse* response) override;
  Reactor* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override;
  Reactor* ServerMetadata(Context* context, const inference::ServerMetadataRequest* request,
                          inference::ServerMetadataResponse* response) override;
  Reactor* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override;
  Reactor* ModelInfer(Context* context, const inference::ModelInferRequest* request,
                      inference::ModelInferResponse* response) override;
  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override;
  Reactor* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                           inference::ModelStatisticsResponse* response) override;
  Reactor* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                           inference::RepositoryIndexResponse* response) override;
  Reactor* RepositoryModelLoad(Context* context,
                               const inference::RepositoryModelLoadRequest* request,
                               inference::RepositoryModelLoadResponse* response) override;
  Reactor* RepositoryModelUnload(Context* context,
                                 const inference::RepositoryModelUnloadRequest* request,
                                 inference::RepositoryModelUnloadResponse* response) override;

 private:
  enum class Door { kOpen, kInference, kAdmin };
  // Counts the refusal and returns its status.
  grpc::Status Refusal(const std::exception_ptr& failure);
  // Runs `body` on this thread; an exception becomes the status.
  Reactor* Answer(Context* context, Door door, const std::function<void()>& body);
  Reactor* Change(Context* context, std::function<void(Repository&)> change);
  void Admit(const Context& context, Door door) const;
  std::shared_ptr<ModelVersion> Find(const std::string& model, const std::string& version) const;

  server::Service& service_;
  WorkPool pool_;
};

}  // namespace crema::server
