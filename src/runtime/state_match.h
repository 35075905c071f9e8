// Assigns the entries of a state dict to the parameters of a net, to fill it.
#pragma once

#include <string>
#include <vector>

#include "format/state_dict.h"
#include "plan/plan.h"
#include "runtime/torch_modules.h"
#include "runtime/weights.h"

namespace crema {

// Entries of MatchState besides the index of one in the file.
inline constexpr int kZerosEntry = -1;
inline constexpr int kOnesEntry = -2;
inline constexpr int kKeptEntry = -3;  // the weights have the value already

struct StateMatch {
  int entry = 0;  // of the state dict; kZerosEntry, kOnesEntry: no entry
  int slot = 0;   // parameter of the plan
  const TorchParameter* parameter = nullptr;
  std::string how;  // "name", "map", "order and shape", "the only one that fits", "not in the file"
};

// A line "entry = layer parameter" of a map.
struct StateMapLine {
  std::string entry;      // "zeros" and "ones" are constants
  std::string layer;      // empty: the entry is not used ("entry = -")
  std::string parameter;  // the role, or the index of the blob
  int line = 0;
};

// Parses a map: a line for each entry, '#' begins a comment. Throws kInvalidArgument, listing all
// lines that are wrong. `file` is for messages.
std::vector<StateMapLine> ParseStateMap(const std::string& text, const std::string& file);

struct StateMatches {
  StateMatches() = default;
  StateMatches(StateMatches&&) = default;

  std::vector<TorchModule> modules;  // that `parameter` refers to
  std::vector<StateMatch> matches;   // in the order of the net
  std::vector<int> unused;           // entries that fit nothing, or that the map leaves out
  std::vector<int> unmatched;        // entries that fit, but have no place
  std::vector<int> empty_slots;      // without an entry
  std::vector<Problem> problems;     // of `unmatched` and `empty_slots`, and of the map
  std::vector<std::string> names;    // of the entries, without what all begin with
  std::string prefix;                // this: "module."
};

// Matches in this order: lines of the map; modules (the entries of one prefix) and layers of one
// name; the rest if shapes agree one after the other; else each module with the layer that is next
// after those that came before; last, pairs that fit nothing else. Shapes may differ in axes of
// size 1, and a matrix fits a convolution that has its elements. Does not throw; `map_file` is for
// problems. With `keep_constants`, layers of type Parameter without an entry keep their values.
StateMatches MatchState(const Plan& plan, const StateDict& file,
                        const std::vector<StateMapLine>& map, const std::string& map_file,
                        bool keep_constants = false);

// Returns a table of entry, shape, layer, parameter and the way in which they were matched.
std::string DescribeMatches(const Plan& plan, const StateDict& file, const StateMatches& matches);

// Returns the matches as a map, with comments on the entries and parameters that have no match.
std::string PrintStateMap(const Plan& plan, const StateDict& file, const StateMatches& matches);

// Fills the parameters, but for those that are kept. Throws the problems if there are any, and what
// StateDict::Read throws; `weights` is to be thrown away then.
void FillFromState(const Plan& plan, StateDict* file, const StateMatches& matches,
                   Weights* weights);

}  // namespace crema
