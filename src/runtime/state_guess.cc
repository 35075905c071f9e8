#include "runtime/state_guess.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/strings.h"

namespace crema {
namespace {

constexpr const char* kByOrder = "order and shape";

std::string WithoutDigits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Returns the name with a last number that is one less: "block.conv2" for "block.conv3"; empty if
// there is none.
std::string NameBefore(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;  // 0: all are
  int number = 0;
  const auto [end, error] =
      std::from_chars(name.data() + digits, name.data() + name.size(), number);
  if (digits == name.size() || error != std::errc() || number == 0) return "";
  return StrCat(name.substr(0, digits), number - 1);
}

// Returns true if the first parts that differ do so not only in numbers.
bool DifferInWords(const std::string& a, const std::string& b) {
  const std::vector<std::string> parts_a = Split(a, '.');
  const std::vector<std::string> parts_b = Split(b, '.');
  const auto [at_a, at_b] = std::ranges::mismatch(parts_a, parts_b);
  return at_a == parts_a.end() || at_b == parts_b.end() ||
         WithoutDigits(*at_a) != WithoutDigits(*at_b);
}

// Returns the number of steps between two names in the tree: 2 between "a.b" and "a.c".
size_t Steps(const std::string& a, const std::string& b) {
  const std::vector<std::string> parts_a = Split(a, '.');
  const std::vector<std::string> parts_b = Split(b, '.');
  const auto [at_a, at_b] = std::ranges::mismatch(parts_a, parts_b);
  return static_cast<size_t>((parts_a.end() - at_a) + (parts_b.end() - at_b));
}

class Guesser {
 public:
  explicit Guesser(const GuessInput& input)
      : in_(input),
        free_(input.names.size(), true),
        done_(input.done),
        taken_(input.taken),
        fits_(input.done.size()) {
    for (size_t m = 0; m < in_.targets.size(); ++m) {
      places_.emplace(in_.names[m], m);
      for (const size_t t : in_.targets[m]) fits_[t].push_back(m);
    }
    // A target that nothing fits does not keep others waiting.
    blocks_.resize(done_.size());
    for (size_t t = 0; t < done_.size(); ++t) blocks_[t] = !done_[t] && !fits_[t].empty();
  }

  std::vector<Guess> Run() {
    if (!TakeSequence()) TakeReady();
    TakeOnlyOnes();
    return std::move(guesses_);
  }

 private:
  void Take(size_t module, size_t target, const char* how) {
    guesses_.push_back({module, target, how});
    free_[module] = false;
    done_[target] = true;
    taken_[target] = in_.names[module];
    blocks_[target] = false;
    last_ = static_cast<int>(target);
    last_module_ = module;
  }

  bool TakeSequence() {
    std::vector<size_t> modules;
    std::vector<size_t> targets;
    for (size_t m = 0; m < free_.size(); ++m) {
      if (!in_.targets[m].empty()) modules.push_back(m);
    }
    for (size_t t = 0; t < done_.size(); ++t) {
      if (!done_[t]) targets.push_back(t);
    }
    if (modules.size() != targets.size()) return false;
    for (size_t i = 0; i < modules.size(); ++i) {
      const std::vector<size_t>& fitting = in_.targets[modules[i]];
      if (!std::ranges::binary_search(fitting, targets[i])) return false;
      if (in_.by_name && HasRival(modules[i], targets[i])) return false;
    }
    for (size_t i = 0; i < modules.size(); ++i) Take(modules[i], targets[i], kByOrder);
    return true;
  }

  void TakeReady() {
    for (bool found = true; found;) {
      found = false;
      for (size_t m = 0; m < free_.size() && !found; ++m) {
        if (!free_[m] || (in_.by_name && IsLater(m))) continue;
        const int target = TargetFor(m);
        found = target >= 0 && !(in_.by_name && HasRival(m, static_cast<size_t>(target)));
        if (found) Take(m, static_cast<size_t>(target), kByOrder);
      }
    }
  }

  bool IsReady(size_t target) const {
    return !done_[target] && std::ranges::none_of(in_.before[target], [&](int before) {
      return blocks_[static_cast<size_t>(before)];
    });
  }

  // Returns -1 if no target is ready, or several are and none is preferred.
  int TargetFor(size_t module) const {
    std::vector<size_t> ready;
    std::ranges::copy_if(in_.targets[module], std::back_inserter(ready),
                         [&](size_t t) { return IsReady(t); });
    if (ready.empty()) return -1;
    if (ready.size() == 1) return static_cast<int>(ready[0]);
    std::vector<size_t> following;
    std::ranges::copy_if(ready, std::back_inserter(following),
                         [&](size_t t) { return in_.before[t].contains(last_); });
    if (following.size() == 1) return static_cast<int>(following[0]);
    // A module that had to wait does not follow the order of the net.
    if (!in_.by_name && module < last_module_) return -1;
    const auto first = static_cast<size_t>(std::ranges::find(done_, false) - done_.begin());
    return ready[0] == first ? static_cast<int>(first) : -1;
  }

  // Returns true if the module with the number before has no target yet.
  bool IsLater(size_t module) const {
    const auto before = places_.find(NameBefore(in_.names[module]));
    return before != places_.end() && free_[before->second];
  }

  // Returns true if another module fits the target as well, and neither numbers nor the tree of
  // names tell which comes first.
  bool HasRival(size_t module, size_t target) const {
    return std::ranges::any_of(fits_[target], [&](size_t other) {
      return other != module && free_[other] && !IsLater(other) &&
             DifferInWords(in_.names[module], in_.names[other]) &&
             StepsTo(target, module) >= StepsTo(target, other);
    });
  }

  // Returns the steps in the tree of names from the nearest module before the target.
  size_t StepsTo(size_t target, size_t module) const {
    size_t least = std::string::npos;
    for (const int before : in_.before[target]) {
      const std::string& from = taken_[static_cast<size_t>(before)];
      if (!from.empty()) least = std::min(least, Steps(from, in_.names[module]));
    }
    return least;
  }

  void TakeOnlyOnes() {
    for (bool found = true; found;) {
      found = false;
      for (size_t t = 0; t < done_.size(); ++t) {
        if (done_[t]) continue;
        const auto is_free = [&](size_t m) { return free_[m]; };
        if (std::ranges::count_if(fits_[t], is_free) != 1) continue;
        const size_t module = *std::ranges::find_if(fits_[t], is_free);
        const auto is_open = [&](size_t other) { return !done_[other]; };
        if (std::ranges::count_if(in_.targets[module], is_open) != 1) continue;
        Take(module, t, "only one that fits");
        found = true;
      }
    }
  }

  const GuessInput& in_;
  std::vector<bool> free_;                 // by module
  std::vector<bool> done_;                 // by target
  std::vector<std::string> taken_;         // by target: names of modules
  std::vector<bool> blocks_;               // by target: those after it wait
  std::vector<std::vector<size_t>> fits_;  // modules by target
  std::map<std::string, size_t> places_;   // of modules
  size_t last_module_ = 0;
  int last_ = -1;  // target
  std::vector<Guess> guesses_;
};

}  // namespace

std::vector<Guess> GuessModules(const GuessInput& input) { return Guesser(input).Run(); }

}  // namespace crema
