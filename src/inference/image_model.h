// A model whose input is images; shared by classifier, detector and segmenter.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/image/image.h"
#include "inference/model.h"

namespace crema {

// Thread safety: const; each thread makes its own ImageRunner.
class ImageModel {
 public:
  // Requires: a model with one f32 input, N x C x H x W, C 1 (gray) or 3, and none but the sizes of
  // images (FindSizesInput) beside it. `task` is for messages ("classification"). Throws
  // kInvalidArgument if the model does not fit.
  ImageModel(std::shared_ptr<const Model> model, const std::string& task);

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  const std::string& input() const { return input_; }
  // The input of height, width and scale of the image; empty: none. Such a model takes one image at
  // a time.
  const std::string& sizes_input() const { return sizes_input_; }
  // Shape C x H x W.
  const Shape& sample() const { return sample_; }
  int height() const { return static_cast<int>(sample_[1]); }
  int width() const { return static_cast<int>(sample_[2]); }
  // Colours to decode images to.
  ColorMode color_mode() const { return sample_[0] == 1 ? ColorMode::kGray : ColorMode::kColor; }

  Shape BatchShape(int64_t images) const;  // of input()
  std::shared_ptr<const Plan> PlanForBatch(int64_t images) const;
  // Returns `wanted`, or the only output if it is empty. Throws kInvalidArgument.
  std::string FindOutput(const std::string& wanted) const;
  // Returns the shape of an output for this number of images.
  Shape OutputShape(const std::string& output, int64_t images) const;

 private:
  std::shared_ptr<const Model> model_;
  std::string input_;
  std::string sizes_input_;
  Shape sample_;
};

// Throws kInvalidArgument unless the preprocessing fits the input of the model.
void CheckPreprocessing(const Preprocessing& preprocessing, const ImageModel& model);

// The inputs of an ImageModel for images. Thread safety: one thread at a time.
class ImageInputs {
 public:
  // Fits images of the model's color_mode() and any size to the input. Requires: at least one, and
  // no more with kReshape; CheckPreprocessing succeeded. Throws what PlaceImage throws.
  void Fill(const ImageModel& model, const Preprocessing& preprocessing,
            std::span<const Image> images);
  // Refers to this object and to the model of Fill.
  std::vector<NamedTensor> tensors() const;

 private:
  const ImageModel* model_ = nullptr;
  Tensor pixels_;
  Tensor sizes_;
};

// Thread safety: one thread at a time.
class ImageRunner {
 public:
  // Requires: CheckPreprocessing succeeded.
  ImageRunner(const ImageModel& model, Preprocessing preprocessing);
  // Runs one batch of images of color_mode() and any size. Requires: at least one.
  void Run(std::span<const Image> images);
  // Does the same for nets whose outputs have one row per image. Throws kInvalidArgument for
  // several images if the samples are not independent.
  void RunBySample(std::span<const Image> images);
  ConstTensorView Output(const std::string& name) const { return runner_.Output(name); }
  // Returns where an image lies in the input.
  ImagePlacement Place(const Image& image) const;
  const Preprocessing& preprocessing() const { return preprocessing_; }

 private:
  const ImageModel& model_;
  const Preprocessing preprocessing_;
  ModelRunner runner_;
  ImageInputs inputs_;
};

}  // namespace crema
