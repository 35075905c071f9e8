// Session state of AnnotatedData.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/batches/annotated_batches.h"
#include "layers/input/prefetched.h"

namespace crema {

constexpr int64_t kBoxRow = 1 + kBoxValues;  // the index of the image in the batch comes first

// Reads batches of images and of boxes per image, and joins the boxes into one blob.
class AnnotatedDataState final : public LayerSessionState, public HasDeferredWarnings {
 public:
  static constexpr size_t kMostOutputs = 3;  // images, boxes or labels, placements

  // `most_boxes` returns the most boxes of one record; it is called with the first batch.
  AnnotatedDataState(PrefetchedState::Options options, std::function<uint64_t()> most_boxes)
      : most_boxes_(std::move(most_boxes)), images_(std::move(options)) {}

  void Next(const ForwardArgs& args) {
    const bool boxes = args.outputs.size() > 1 && args.outputs[1].shape().axes() == 4;
    if (!boxes) return images_.Next(args);
    const TensorView& images = args.outputs[0];
    const TensorView& out = args.outputs[1];
    if (boxes_.axes() == 0) {
      boxes_ = Shape{images.shape()[0], 1 + static_cast<int64_t>(most_boxes_()) * kBoxValues};
    }
    std::array<TensorView, kMostOutputs> views;
    std::array<std::byte*, kMostOutputs> places = {};
    const size_t count = args.outputs.size();
    std::ranges::copy(args.outputs, views.begin());
    views[1] = {nullptr, boxes_, out.dtype(), out.device()};
    images_.ExposeBuffers(std::span(views).first(count), std::span(places).first(count));
    if (args.external.empty()) {
      std::memcpy(images.raw(), places[0], images.bytes());
    } else {
      args.external[0] = places[0];
    }
    if (count > 2) std::memcpy(args.outputs[2].raw(), places[2], args.outputs[2].bytes());
    DispatchFloat(out.dtype(), [&]<typename T>(T) {
      args.output_shapes[1] =
          Shape{1, 1, Collect<T>(reinterpret_cast<const T*>(places[1]), out), kBoxRow};
    });
  }

  void Save(LayerState* state) const override { images_.Save(state); }
  void Restore(const LayerState& state) override { images_.Restore(state); }
  bool IsPosition() const override { return images_.IsPosition(); }
  int64_t EpochSize() const override { return images_.EpochSize(); }
  std::string SampleName(int64_t index) const override { return images_.SampleName(index); }
  double WaitedSeconds() const override { return images_.WaitedSeconds(); }
  std::vector<std::string> TakeWarnings() const override { return images_.TakeWarnings(); }

 private:
  // Copies the boxes of all images to rows of `out`. Returns the number of rows. Throws kDataLoss
  // if `out` is too small.
  template <typename T>
  int64_t Collect(const T* boxes, const TensorView& out) {
    T* row = out.data<T>();
    int64_t rows = 0;
    for (int64_t image = 0; image < boxes_[0]; ++image) {
      const T* values = boxes + image * boxes_[1];
      const auto count = static_cast<int64_t>(*values++);
      if ((rows + count) * kBoxRow > out.count()) {
        Fail(ErrorCode::kDataLoss,
             StrCat("a batch has more than ", out.count() / kBoxRow,
                    " boxes, the most of any when the net was built: the data set has changed"));
      }
      for (int64_t i = 0; i < count; ++i, values += kBoxValues, row += kBoxRow) {
        row[0] = static_cast<T>(image);
        std::copy_n(values, kBoxValues, row + 1);
      }
      rows += count;
    }
    if (rows > 0) return rows;
    std::fill_n(row, kBoxRow, T(-1));
    return 1;
  }

  const std::function<uint64_t()> most_boxes_;
  PrefetchedState images_;
  // shape of the boxes as read (batch, their count and values); set with the first batch
  Shape boxes_;
};

}  // namespace crema
