// Batches from Python: what the argument `data` of a net or a solver gives.
#pragma once

#include <memory>
#include <string>

#include "arrays.h"
#include "format/prototxt.h"
#include "graph/registry.h"

namespace crema::python {

// The data of one net, a crema._feed.Feed. Held by the layers that read it and by the owner of the
// net. Thread safety: with the GIL.
struct Feed {
  nb::object object;
  // Ctrl-C while a batch is awaited sets `interrupted`, and the wait continues: the owner of the
  // net polls it. A second one raises KeyboardInterrupt, as does the first without
  // `defers_interrupts`.
  bool defers_interrupts = false;
  bool interrupted = false;

  Feed() = default;
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
};

// Replaces the layers of a net that give what `data` gives, Input and data layers, by one Input
// layer that reads `data`. The result must outlive the net. Takes the first batch. `whole_passes`:
// the batches may be planned smaller, by SetBatchSize. Throws what Python raises. Requires the GIL.
std::shared_ptr<Feed> FeedNet(const nb::object& data, const NetState& state, bool whole_passes,
                              NetFile* file);
// Returns the tops of the Input layers of a net.
std::vector<std::string> InputsOf(const NetParameter& net, const NetState& state);

// Makes layers of the type Input read such data.
void LetInputReadFeeds(LayerType* input);

}  // namespace crema::python
