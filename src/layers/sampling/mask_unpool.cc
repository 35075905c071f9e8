#include "layers/sampling/mask_unpool.h"

#include <algorithm>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "layers/zero_gradient.h"
#include "math/scratch.h"

namespace crema {
namespace {

// Returns the position that a mask element names, or -1 for none. Throws if it is no position of
// the output.
template <typename T>
int64_t PlaceOf(const Layer& layer, T mask, const Shape& output) {
  const int64_t size = output.count(2);
  const int64_t place = MaskPlace(mask, size);
  if (place != kWrongPlace) return place;
  FailInputs(layer, StrCat("the mask has the element ", mask,
                           ", but places in the output of shape ", ToString(output),
                           " are whole numbers from 0 to ", size - 1, " (row * width + column)"));
}

}  // namespace

void CheckMaskShape(const Layer& layer, const Shape& input, const Shape& mask) {
  if (input.axes() == 4 && mask == input) return;
  FailInputs(layer, StrCat("input and mask need one shape of 4 axes (batch, channels, height, "
                           "width), but they are ",
                           ToString(input), " and ", ToString(mask)));
}

void ForwardMaskUnpool(const Layer& layer, const ForwardArgs& args) {
  const Shape& in = args.inputs[0].shape();
  const Shape& out = args.outputs[0].shape();
  const int64_t cells = in.count(2), places = out.count(2);
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* mask = args.inputs[1].data<T>();
    T* y = args.outputs[0].data<T>();
    ParallelFor(args.context.threads(), in.count(0, 2), 1, [&](int64_t begin, int64_t end, int) {
      std::fill(y + begin * places, y + end * places, T(0));
      for (int64_t i = begin * cells; i < end * cells; ++i) {
        const int64_t place = PlaceOf(layer, mask[i], out);
        if (place >= 0) y[i / cells * places + place] = x[i];
      }
    });
  });
}

size_t BackwardMaskUnpoolScratch(const Shape& output, int threads) {
  const int workers = ParallelWorkers(threads, output.count(0, 2), 1);
  return ScratchBytes<int32_t>(output.count(2) * workers) + kScratchSlack;
}

void BackwardMaskUnpool(const Layer& layer, const BackwardArgs& args) {
  ZeroGradients(args.input_grads.subspan(1));
  if (args.input_grads[0].empty()) return;
  const Shape& in = args.input_grads[0].shape();
  const Shape& out = args.output_grads[0].shape();
  const int64_t planes = in.count(0, 2), cells = in.count(2), places = out.count(2);
  const int threads = args.context.threads();
  int32_t* owners =
      ScratchCutter(args.scratch).Take<int32_t>(places * ParallelWorkers(threads, planes, 1));
  DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    const T* masks = args.inputs[1].data<T>();
    const T* dys = args.output_grads[0].data<T>();
    T* dxs = args.input_grads[0].data<T>();
    ParallelFor(threads, planes, 1, [&](int64_t begin, int64_t end, int worker) {
      int32_t* owner = owners + worker * places;
      for (int64_t p = begin; p < end; ++p) {
        const T* mask = masks + p * cells;
        for (int64_t i = 0; i < cells; ++i) {
          const int64_t place = PlaceOf(layer, mask[i], out);
          if (place >= 0) owner[place] = static_cast<int32_t>(i);
        }
        for (int64_t i = 0; i < cells; ++i) {
          const auto place = static_cast<int64_t>(mask[i]);
          const bool counts = place >= 0 && owner[place] == static_cast<int32_t>(i);
          dxs[p * cells + i] = counts ? dys[p * places + place] : T(0);
        }
      }
    });
  });
}

}  // namespace crema
