#include "server/service.h"

#include <utility>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

[[noreturn]] void RefuseToken(std::string_view authorization) {
  Refuse(Cause::kUnauthorized, authorization.starts_with("Bearer ")
                                   ? "this token is not valid here"
                                   : "a token is needed: Authorization: Bearer TOKEN");
}

}  // namespace

void Service::SetReady(bool models_are) {
  const std::lock_guard lock(ready_mutex_);
  models_are_ready_ = models_are;
  UpdateReady();
}

void Service::SetGrpcAccepts(bool accepts) {
  const std::lock_guard lock(ready_mutex_);
  grpc_accepts_ = accepts;
  UpdateReady();
}

void Service::OnReady(std::function<void(bool ready)> changed) {
  const std::lock_guard lock(ready_mutex_);
  ready_changed_ = std::move(changed);
  UpdateReady();
}

void Service::UpdateReady() {
  ready = models_are_ready_ && grpc_accepts_;
  metrics.SetReady(ready);
  if (ready_changed_) ready_changed_(ready);
}

void Service::Refused(const RequestError& error) {
  metrics.Refused(error.cause());
  if (!error.detail().empty()) {
    log.Write(Severity::kError, StrCat("a request ended with: ", error.detail()));
  }
}

void Service::RequireInference(std::string_view authorization) const {
  if (inference_tokens.Allows(authorization)) return;
  if (!admin_tokens.empty() && admin_tokens.Allows(authorization)) return;
  RefuseToken(authorization);
}

void Service::RequireAdmin(std::string_view authorization) const {
  if (admin_tokens.empty()) {
    Refuse(Cause::kForbidden, "this server was started without --admin_token_file");
  }
  if (!admin_tokens.Allows(authorization)) {
    Refuse(Cause::kUnauthorized, "an administrator's token is needed");
  }
}

void Service::RequireNotEnding() const {
  if (ending) Refuse(Cause::kUnavailable, "the server ends");
}

std::shared_ptr<ModelVersion> Service::Find(std::string_view model, int64_t version_number) const {
  try {
    return table.Find(model, version_number);
  } catch (const RequestError&) {
    RequireNotEnding();
    throw;
  }
}

Repository& Service::RepositoryOrRefuse() const {
  Repository* const there = repository;
  if (there == nullptr) {
    Refuse(Cause::kBadRequest, "this server has one model, which stays; --repository has more");
  }
  return *there;
}

}  // namespace crema::server
