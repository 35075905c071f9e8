// POST /v1/classify: classifies a picture.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/infer_message.h"
#include "server/repository/model_table.h"

namespace crema::server {

struct ClassifyQuery {
  std::string model;  // empty: the only classifier
  int64_t version = 0;
  int64_t best = 5;
};

// Parses "model=lenet&version=2&k=3". Throws kBadRequest.
ClassifyQuery ParseClassifyQuery(std::string_view query);

// Throws like ModelTable::Find, and kBadRequest if the choice is ambiguous or the model does not
// accept a picture.
std::shared_ptr<ModelVersion> ChooseClassifier(const ModelTable& table, const ClassifyQuery& query);

// Preprocesses the picture as the model's card specifies. Throws kBadRequest if it is not a
// picture, kTooLarge above `most_pixels` pixels.
InferRequest PictureRequest(const ModelVersion& model, const std::string& picture,
                            int64_t most_pixels);

std::string ClassesJson(const InferReply& reply, const std::vector<std::string>& labels,
                        int64_t best);

}  // namespace crema::server
