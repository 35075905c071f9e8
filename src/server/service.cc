#include "server/service.h"

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {

void Service::Refused(const RequestError& error) {
  metrics.Refused(error.cause());
  if (!error.detail().empty()) {
    log.Write(Severity::kError, StrCat("a request ended with: ", error.detail()));
  }
}

void Service::RequireInference(std::string_view authorization) const {
  if (inference_tokens.Allows(authorization)) return;
  if (!admin_tokens.empty() && admin_tokens.Allows(authorization)) return;
  Refuse(Cause::kUnauthorized, "a token is needed: Authorization: Bearer TOKEN");
}

void Service::RequireAdmin(std::string_view authorization) const {
  if (admin_tokens.empty()) {
    Refuse(Cause::kForbidden, "this server was started without --admin_token_file");
  }
  if (!admin_tokens.Allows(authorization)) {
    Refuse(Cause::kUnauthorized, "an administrator's token is needed");
  }
}

Repository& Service::RepositoryOrRefuse() const {
  if (repository == nullptr) {
    Refuse(Cause::kBadRequest, "this server has one model, which stays; --repository has more");
  }
  return *repository;
}

}  // namespace crema::server
