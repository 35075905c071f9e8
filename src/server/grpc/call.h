// A gRPC call in progress. For service.cc.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <utility>

#include "server/service.h"

namespace crema::server {

// Ends a call once and counts it. A call dropped for lack of memory ends as internal error. Thread
// safety: one thread at a time.
class GrpcCall {
 public:
  GrpcCall(Service& service, grpc::ServerUnaryReactor* reactor)
      : service_(service), reactor_(reactor), under_way_(service) {}
  ~GrpcCall() { Finish({grpc::StatusCode::INTERNAL, "internal error"}); }
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  void Finish(const grpc::Status& status) {
    if (reactor_ == nullptr) return;
    service_.metrics.Answered("grpc", static_cast<int>(status.error_code()));
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

}  // namespace crema::server
