// Guesses which module of a state dict belongs to which layer, by shapes and order.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace crema {

struct GuessInput {
  std::vector<std::string> names;            // of the modules, in order
  std::vector<std::vector<size_t>> targets;  // by module: those that fit, ascending
  std::vector<std::set<int>> before;         // by target: those that come directly before it
  std::vector<bool> done;                    // by target: needs no module
  std::vector<std::string> taken;            // by target: name of its module; empty: none yet
  // The modules are in the order of their names, as safetensors has them, and not of the program.
  bool by_name = false;
};

struct Guess {
  size_t module = 0;
  size_t target = 0;
  const char* how = "";
};

// Returns pairs that fit. If all modules and targets fit one after the other, these are the pairs.
// Otherwise, a target is ready if the targets before it have their modules. The first module that
// fits a ready target is paired repeatedly: with the only such target, the one after the last pair,
// or, if the module comes after the last pair, the first of the net. At last come pairs that fit
// nothing else.
// With `by_name`, numbers in names determine the order, and words do not. If several modules whose
// names differ in words fit a target, the nearest in the tree of names to the modules before the
// target is paired with it, or none if two are equally near.
std::vector<Guess> GuessModules(const GuessInput& input);

}  // namespace crema
