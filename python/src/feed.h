// Batches from Python: what the argument `data` of a net or a solver gives.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "python_layer.h"
#include "user_code.h"

namespace crema::python {

// Lets a thread that makes data and those that wait for it find out that they would wait for each
// other (crema._core.DataTurn). Thread safety: with the GIL.
struct DataTurn {
  Guard guard;               // of the thread that makes the data
  std::weak_ptr<Guard> fed;  // of the net
};

// The data of one net, a crema._feed.Feed. Held by the layers that read it and by the owner of the
// net. Thread safety: with the GIL.
struct Feed {
  Feed(nb::object of, std::shared_ptr<DataTurn> its)
      : object(std::move(of)), turn(std::move(its)) {}

  const UserObject object;
  const std::shared_ptr<DataTurn> turn;
};

// Replaces the layers of a net that give what `data` gives, Input and data layers, by one Input
// layer that reads `data`, for plans under ReuseObjects. Takes the first batch. `whole_passes`: the
// batches may be planned smaller, by SetBatchSize. `guard`: of the net. Throws what Python raises.
// Requires the GIL.
void FeedNet(const nb::object& data, const NetState& state, bool whole_passes,
             const std::shared_ptr<Guard>& guard, NetFile* file, PythonObjects* objects);
// Removes what a text of a user has where FeedNet writes the numbers of feeds, and adds a warning
// to those of the file. Call it before FeedNet.
void ForgetFeeds(NetFile* file);
// Returns the tops of the Input layers of a net that no data feed.
std::vector<std::string> InputsOf(const NetParameter& net, const NetState& state);

// Makes layers of the type Input read such data.
void LetInputReadFeeds(LayerType* input);
// Returns LayerType::param_fields without those that only FeedNet writes.
std::vector<std::string> FieldsOfUsers(const LayerType& type);

void BindFeed(nb::module_& module);

}  // namespace crema::python
