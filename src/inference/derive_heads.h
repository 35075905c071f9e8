// Finds the predictions of a training net.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/registry.h"

namespace crema {

// A layer of a training net that the derivation of a deploy net looks at.
struct TrainingLayer {
  const LayerParameter* param = nullptr;
  int index = 0;        // in the text
  bool in_test = true;  // false: a data layer or a loss of phase TRAIN
};

// A prediction: a blob at a position among the layers.
struct Head {
  size_t at = 0;  // the blob is that before this layer
  std::string blob;
  std::optional<LayerParameter> layer = {};  // to append, which makes the output from the blob

  const std::string& output() const { return layer ? layer->top(0) : blob; }
};

struct Heads {
  std::vector<Head> heads;         // never empty
  std::vector<std::string> notes;  // decisions that the user should know
};

// Returns true for a layer that produces samples: it ends with "Data", or is a Python layer without
// bottoms.
bool IsDataLayer(const LayerParameter& layer);

// Returns true for layers that no prediction needs: losses, metrics, Silence, writers of files.
bool OnlyTrainsOrTests(const LayerParameter& layer, const Registry& registry);

// Throws kInvalidArgument if there are no predictions, or if no rule says what replaces a loss.
Heads FindHeads(const NetFile& training, const std::vector<TrainingLayer>& layers,
                const Registry& registry);

}  // namespace crema
