// Shared part of the registrations of RNN, LSTM and GRU.
#include "core/strings.h"
#include "layers/recurrent/recurrent_implementations.h"
#include "layers/recurrent/recurrent_layer.h"

namespace crema {
namespace {

std::vector<BadSample> BadSamples(const RecurrentCell& cell) {
  const std::string good = "recurrent_param { num_output: 3 }";
  const std::string expose = "recurrent_param { num_output: 3 expose_hidden: true }";
  std::vector<std::vector<int64_t>> states(cell.states, {1, 2, 3});
  const int tops = 1 + static_cast<int>(cell.states);
  std::vector<std::vector<int64_t>> exposed = {{4, 2, 5}, {4, 2}};
  exposed.insert(exposed.end(), states.begin(), states.end());
  auto wrong = exposed;
  wrong.back() = {1, 2, 4};
  return {
      {"", {{4, 2, 5}, {4, 2}}, "num_output is missing or 0"},
      {"recurrent_param { num_output: 99999999 }", {{4, 2, 5}, {4, 2}}, "num_output is 99999999"},
      {good, {{4}, {4, 2}}, "2 axes or more"},
      {good, {{4, 2, 0}, {4, 2}}, "no features"},
      {good, {{4, 2, 5}, {2, 4}}, "cont must be"},
      {good, {{4, 2, 5}, {4, 2}, {4, 2}}, "x_static must be"},
      {good, {{4, 2, 5}, {4, 2}, {2, 2}, {1, 2, 3}}, "4 bottoms"},
      {good, {{4, 2, 5}, {4, 2}}, StrCat(tops, " tops"), tops},
      {expose, exposed, "1 tops"},
      {expose, wrong, "initial state", tops},
      {expose, {{4, 2, 5}}, "bottoms", tops},
  };
}

}  // namespace

LayerType RecurrentType(const std::string& name, const RecurrentCell& cell) {
  const auto states = static_cast<int>(cell.states);
  const std::string names = states == 2 ? "h and c" : "h";
  LayerType type;
  type.name = name;
  type.category = "recurrent";
  type.traits = {.multiplies_matrices = true};
  type.param_fields = {"recurrent_param"};
  type.unread_fields = {"recurrent_param.debug_info"};
#ifdef CREMA_HAVE_ONEDNN
  type.implementations = {OneDnnRecurrentImplementation()};
#endif
  if (name != "GRU") type.unread_fields.push_back("recurrent_param.reset_after");
  type.inputs = {cell.needs_cont ? 2 : 1, 3 + states};
  type.outputs = {1, 1 + states};
  type.input_docs = {
      "x: T x N x ..., T steps of N streams; the axes after these are I features",
      StrCat("cont", cell.needs_cont ? "" : " (optional)",
             ": T x N, 0 where a sequence begins, 1 where it continues; a factor on the state from "
             "the step before (in the reverse direction, on the state from the step after, where "
             "that begins a sequence). Gets no gradient"),
      "x_static (optional): N x ..., S features that every step of a stream sees",
      StrCat("with expose_hidden, the initial states ", names,
             ": 1 x N x D each, D = num_output; BIDIRECTIONAL: 2 x N x D, forward first"),
  };
  type.output_docs = {
      "y: T x N x D; BIDIRECTIONAL: T x N x 2D, forward first on the last axis",
      StrCat("with expose_hidden, the final states ", names, ": as the initial ones"),
  };
  type.differences = {
      "The number of steps T may change from batch to batch; Caffe fixes it.",
      ("With expose_hidden, gradients flow into the initial states and from the final ones; Caffe "
       "cuts them off."),
      ("Without expose_hidden a batch continues from the states of the one before, as in Caffe. "
       "When the number of streams changes, cont must be 0 in the first step of all streams, "
       "otherwise it is an error; Caffe mixes up streams. Snapshots hold these states. In the "
       "reverse direction every batch begins with zeros."),
      "A cont of 0 gives a state of 0 even if the state was NaN; Caffe gets NaN.",
      "recurrent_param.direction is Crema's own.",
  };
  if (!cell.needs_cont) {
    type.differences.pop_back();
    type.origin = "Crema";
  }
  type.bad_samples = BadSamples(cell);
  return type;
}

LayerSample RecurrentSample(std::string name, const std::string& fields,
                            std::vector<SampleInput> inputs, int outputs) {
  LayerSample sample;
  sample.name = std::move(name);
  sample.prototxt = StrCat("recurrent_param { num_output: 3 ", fields, fields.empty() ? "" : " ",
                           "weight_filler { type: \"uniform\" min: -0.1 max: 0.1 } }");
  sample.inputs = std::move(inputs);
  sample.outputs = outputs;
  return sample;
}

}  // namespace crema
