// Formats metadata of the server and its models as JSON.
#pragma once

#include <span>
#include <string>

#include "server/service.h"

namespace crema::server {

std::string ServerMetadataJson(const std::string& version);
std::string ModelMetadataJson(const ModelVersion& model, std::span<const int64_t> versions);
// In the form that Triton's clients expect.
std::string ModelConfigJson(const ModelVersion& model);
// Tasks and inputs of models, for people and the page.
std::string ModelsJson(std::span<const std::shared_ptr<ModelVersion>> models);
std::string StatisticsJson(std::span<const std::shared_ptr<ModelVersion>> models);
std::string IndexJson(std::span<const VersionStatus> rows, bool ready_only);
std::string ErrorJson(std::string_view message);

}  // namespace crema::server
