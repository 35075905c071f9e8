// POST /v1/classify, /v1/detect and /v1/segment: an image file becomes an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/image.h"
#include "server/http/message.h"
#include "server/limits.h"
#include "server/model/image_file.h"
#include "server/protocol/infer_message.h"
#include "server/repository/model_table.h"

namespace crema::server {

enum class ImageTask { kClassify, kDetect, kSegment };

// The name in ModelDescription, "classify", and in the path.
std::string_view ToString(ImageTask task);

struct ImageQuery {
  ImageTask task = ImageTask::kClassify;
  std::string model;  // empty: the only one for the task
  int64_t version = 0;
  int64_t best = 5;                  // kClassify
  std::optional<double> confidence;  // kDetect: scores exceed it
};

// Parses "model=lenet&version=2&k=3". Throws kBadRequest.
ImageQuery ParseImageQuery(ImageTask task, std::string_view query);

// Throws like ModelTable::Find, and kBadRequest if the choice is ambiguous or the model has another
// task; the message says which.
std::shared_ptr<ModelVersion> ChooseModel(const ModelTable& table, const ImageQuery& query);

struct ImageRequest {
  InferRequest infer;
  PlacedImage placed;
};

// Makes a request for the output that the task reads. Requires: TakesImage. Throws like
// AppendFromFile.
ImageRequest ReadImage(const ModelDescription& model, std::string_view file,
                       const RequestLimits& limits);

// The answer of a segmenter before it is encoded.
struct Segments {
  std::string model;
  int64_t version = 0;
  Image classes;  // in the size of the scores
};

// Makes the answer from the outputs of a model. Does not refer to the version of the model.
struct ImageAnswer {
  ImageQuery query;
  PlacedImage placed;
  std::vector<std::string> labels;
  std::shared_ptr<const BoxReader> detector;
  std::shared_ptr<const Segmenter> segmenter;
  int64_t crops = 1;       // kClassify: samples of the image, whose scores have a mean
  bool wants_png = false;  // kSegment: the label map alone

  // Throws kBadRequest for a confidence below the one that the model was exported with.
  void CheckConfidence() const;
  HttpResponse Write(const InferReply& reply) const;   // requires: not kSegment
  Segments SegmentsOf(const InferReply& reply) const;  // requires: kSegment
  HttpResponse Write(const Segments& segments) const;
};

}  // namespace crema::server
