// POST /v1/classify: a picture in, classes out.
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
  std::string model;  // empty: the only one that classifies
  int64_t version = 0;
  int64_t best = 5;
};

// "model=lenet&version=2&k=3". Throws kBadRequest.
ClassifyQuery ParseClassifyQuery(std::string_view query);

// Throws as ModelTable::Find, and kBadRequest where several models could be meant, or the one
// meant does not take a picture.
std::shared_ptr<ModelVersion> ChooseClassifier(const ModelTable& table, const ClassifyQuery& query);

// The picture as the model's card says. Throws kBadRequest for what is no picture, kTooLarge for
// one of more than `most_pixels`.
InferRequest PictureRequest(const ModelVersion& model, const std::string& picture,
                            int64_t most_pixels);

std::string ClassesJson(const InferReply& reply, const std::vector<std::string>& labels,
                        int64_t best);

}  // namespace crema::server
