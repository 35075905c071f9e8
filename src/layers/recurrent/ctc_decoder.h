// Searches of the CTC decoders, for both devices. See ctc_decoder.cc.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "graph/layer.h"
#include "layers/as_double.h"
#include "math/log_sum.h"

namespace crema {

// Sizes, and what both searches share. Scores are T x N x C, indicators T x N.
struct CtcSequences {
  CtcSequences(const Layer& layer, const Shape& scores);

  // Returns true if step t of sequence n begins the next sequence.
  template <typename T>
  CREMA_HOST_DEVICE bool IsOver(const T* indicators, int64_t t, int64_t n) const {
    return t > 0 && AsDouble(indicators[t * items + n]) == 0;
  }

  // Returns the share of sequences that equal their targets, T x N, negative after the end.
  template <typename T>
  CREMA_HOST_DEVICE float Accuracy(const T* y, const T* targets) const {
    int64_t equal = 0;
    for (int64_t n = 0; n < items; ++n) {
      bool same = true;
      for (int64_t t = 0; t < steps && same; ++t) {
        const double found = AsDouble(y[n * steps + t]), target = AsDouble(targets[t * items + n]);
        same = target < 0 ? found < 0 : found == target;
        if (target < 0) break;
      }
      equal += same ? 1 : 0;
    }
    return items == 0 ? 0 : static_cast<float>(equal) / static_cast<float>(items);
  }

  int64_t steps, items, classes, blank;
  bool merges;
};

// The class of the largest score of each step.
struct CtcGreedy : CtcSequences {
  // Throws an error of the field for a beam_width.
  CtcGreedy(const Layer& layer, const Shape& scores);

  // Returns the bytes of memory for one sequence, which Decode gets as `work`.
  int64_t WorkBytes() const { return 0; }

  // Writes the classes of sequence n, followed by -1, and the negative sum of the largest scores.
  // Null `score` means not needed. A NaN is never the largest score, unless it is that of class 0.
  template <typename T>
  CREMA_HOST_DEVICE void Decode(const T* scores, const T* indicators, int64_t n, std::byte*, T* y,
                                T* score) const {
    T* const out = y + n * steps;
    int64_t length = 0, before = -1;
    double sum = 0;
    for (int64_t t = 0; t < steps && !IsOver(indicators, t, n); ++t) {
      const T* row = scores + (t * items + n) * classes;
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c) {
        if (AsDouble(row[c]) > AsDouble(row[best])) best = c;
      }
      sum -= AsDouble(row[best]);
      if (best != blank && !(merges && best == before)) {
        out[length++] = static_cast<T>(static_cast<float>(best));
      }
      before = best;
    }
    for (int64_t t = length; t < steps; ++t) out[t] = static_cast<T>(-1.0F);
    if (score != nullptr) score[n] = static_cast<T>(static_cast<float>(sum));
  }
};

// Prefix search: keeps the `width` most probable sequences of each step. Probabilities are those of
// all paths that give the sequence, as logarithms.
struct CtcBeam : CtcSequences {
  // Throws an error of the field for a beam_width of 0 or too many prefixes to number.
  CtcBeam(const Layer& layer, const Shape& scores);

  int64_t WorkBytes() const {
    return static_cast<int64_t>(2 * sizeof(Prefix)) * width +
           static_cast<int64_t>(sizeof(Node)) * (1 + steps * width);
  }

  // As CtcGreedy::Decode; the score is the negative logarithm of the probability of the sequence.
  // Scores without a finite normalisation (NaN, +inf) leave an empty sequence with the score NaN.
  template <typename T>
  CREMA_HOST_DEVICE void Decode(const T* scores, const T* indicators, int64_t n, std::byte* work,
                                T* y, T* score) const {
    Prefix* beam = reinterpret_cast<Prefix*>(work);
    Prefix* next = beam + width;
    Node* nodes = reinterpret_cast<Node*>(next + width);
    nodes[0] = {-1, -1};
    beam[0] = {0, kNever, 0, 0, -1};
    int64_t count = 1;
    for (int64_t t = 0; t < steps && !IsOver(indicators, t, n); ++t) {
      const T* row = scores + (t * items + n) * classes;
      count = Extend(row, NormOf(row), nodes, beam, count, next);
      for (int64_t k = 0; k < count; ++k) {
        if (next[k].added < 0) continue;
        const auto node = static_cast<int32_t>(1 + t * width + k);
        nodes[node] = {next[k].node, next[k].added};
        next[k].node = node;
      }
      Prefix* const last = beam;
      beam = next;
      next = last;
    }
    const int32_t best = count == 0 ? 0 : beam[0].node;
    int64_t length = 0;
    for (int32_t node = best; node > 0; node = nodes[node].parent) ++length;
    T* const out = y + n * steps;
    for (int64_t t = length; t < steps; ++t) out[t] = static_cast<T>(-1.0F);
    for (int32_t node = best; node > 0; node = nodes[node].parent) {
      out[--length] = static_cast<T>(static_cast<float>(nodes[node].last));
    }
    if (score == nullptr) return;
    const double total = count == 0 ? std::numeric_limits<double>::quiet_NaN() : beam[0].total;
    score[n] = static_cast<T>(static_cast<float>(-total));
  }

  int64_t width;

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  // A sequence is another one and its last class. Node 0 is the empty sequence.
  struct Node {
    int32_t parent, last;
  };
  // Logarithms of the probability of the sequence of a node, or of it and an added class: of paths
  // that end with a blank, of those that end with its last class, and of all.
  struct Prefix {
    double blank, label, total;
    int32_t node, added;  // -1: none
  };

  // Returns ln(sum exp(row)).
  template <typename T>
  CREMA_HOST_DEVICE double NormOf(const T* row) const {
    double most = AsDouble(row[0]), sum = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (AsDouble(row[c]) > most) most = AsDouble(row[c]);
    }
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(AsDouble(row[c]) - most);
    return most + std::log(sum);
  }

  CREMA_HOST_DEVICE static bool AreEqual(const Node* nodes, int32_t a, int32_t b) {
    while (a != b && a > 0 && b > 0 && nodes[a].last == nodes[b].last) {
      a = nodes[a].parent;
      b = nodes[b].parent;
    }
    return a == b;
  }

  // Returns ln P of paths of a prefix after which the class c adds to the sequence.
  CREMA_HOST_DEVICE double BeforeAdding(const Node* nodes, const Prefix& prefix, int32_t c) const {
    return merges && nodes[prefix.node].last == c ? prefix.blank : prefix.total;
  }

  // Puts a prefix into the list of the most probable, the first of equal ones first.
  CREMA_HOST_DEVICE void Put(const Prefix& prefix, Prefix* list, int64_t* count) const {
    if (!(prefix.total > (*count == width ? list[width - 1].total : kNever))) return;
    int64_t at = *count == width ? width - 1 : (*count)++;
    for (; at > 0 && list[at - 1].total < prefix.total; --at) list[at] = list[at - 1];
    list[at] = prefix;
  }

  // Writes the most probable prefixes after one more step to `next`; returns their number.
  template <typename T>
  CREMA_HOST_DEVICE int64_t Extend(const T* row, double norm, const Node* nodes, const Prefix* beam,
                                   int64_t count, Prefix* next) const {
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto [parent, last] = nodes[beam[i].node];
      Prefix same{beam[i].total + AsDouble(row[blank]) - norm, kNever, 0, beam[i].node, -1};
      if (last >= 0) {
        if (merges) same.label = beam[i].label;
        for (int64_t j = 0; j < count; ++j) {
          if (!AreEqual(nodes, beam[j].node, parent)) continue;
          same.label = LogSum(same.label, BeforeAdding(nodes, beam[j], last));
        }
        same.label += AsDouble(row[last]) - norm;
      }
      same.total = LogSum(same.blank, same.label);
      Put(same, next, &found);
    }
    for (int64_t i = 0; i < count; ++i) {
      for (int32_t c = 0; c < classes; ++c) {
        const double label = BeforeAdding(nodes, beam[i], c) + AsDouble(row[c]) - norm;
        if (c == blank || (found == width && !(label > next[width - 1].total))) continue;
        bool known = false;  // added above to the prefix that has the class already
        for (int64_t j = 0; j < count && !known; ++j) {
          const auto [parent, last] = nodes[beam[j].node];
          known = last == c && AreEqual(nodes, parent, beam[i].node);
        }
        if (!known) Put({kNever, label, label, beam[i].node, c}, next, &found);
      }
    }
    return found;
  }
};

}  // namespace crema
