// A model whose one input is pictures; what classifier, detector and segmenter share.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/image/image.h"
#include "inference/model.h"

namespace crema {

// Thread safety: const; each thread makes an ImageRunner of its own.
class ImageModel {
 public:
  // Requires a model with one input of f32, N x C x H x W, C 1 (gray) or 3. `task` is for messages
  // ("classification"). Throws kInvalidArgument where it does not fit.
  ImageModel(std::shared_ptr<const Model> model, const std::string& task);

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  const std::string& input() const { return input_; }
  // C x H x W.
  const Shape& sample() const { return sample_; }
  int height() const { return static_cast<int>(sample_[1]); }
  int width() const { return static_cast<int>(sample_[2]); }
  // What to decode images to.
  ColorMode color_mode() const { return sample_[0] == 1 ? ColorMode::kGray : ColorMode::kColor; }

  Shape BatchShape(int64_t images) const;
  std::shared_ptr<const Plan> PlanForBatch(int64_t images) const;
  // `wanted`, or the only output where it is empty. Throws kInvalidArgument.
  std::string FindOutput(const std::string& wanted) const;
  // Extents of an output for that many images.
  Shape OutputShape(const std::string& output, int64_t images) const;

 private:
  std::shared_ptr<const Model> model_;
  std::string input_;
  Shape sample_;
};

// Throws kInvalidArgument unless the mean fits the input of the model.
void CheckMean(const Preprocessing& preprocessing, const ImageModel& model);

// Thread safety: one thread at a time.
class ImageRunner {
 public:
  // Requires: CheckMean passed.
  ImageRunner(const ImageModel& model, Preprocessing preprocessing);
  // Images of color_mode(), of any size, at least one, as one batch.
  void Run(std::span<const Image> images);
  // The same for nets whose outputs have a row an image. Throws kInvalidArgument for several images
  // where the net does not work sample by sample.
  void RunBySample(std::span<const Image> images);
  ConstTensorView Output(const std::string& name) const { return runner_.Output(name); }

 private:
  const ImageModel& model_;
  const Preprocessing preprocessing_;
  ModelRunner runner_;
  Tensor batch_;
};

}  // namespace crema
