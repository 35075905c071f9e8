// Sums over groups of elements (group_stats.h), for normalisation and for parameters of channels.
#pragma once

#include <algorithm>

#include "math/cuda/launch.cuh"
#include "math/group_stats.h"

namespace crema {

// Two sums over the same elements.
struct SumPair {
  double first, second;
  CREMA_HOST_DEVICE friend SumPair operator+(SumPair a, SumPair b) {
    return {a.first + b.first, a.second + b.second};
  }
};

#ifdef __CUDACC__
__device__ inline SumPair OfLane(SumPair pair, int mask) {
  return {OfLane(pair.first, mask), OfLane(pair.second, mask)};
}
#endif

// Returns the offset of element `i` of group `group`. Requires repeats == 1, as all functions here.
CREMA_HOST_DEVICE inline int64_t ElementOfGroup(const GroupLayout& l, int64_t group, int64_t i) {
  const int64_t outer = Quotient(group, l.inner), inner = group - outer * l.inner;
  const int64_t r = l.runs == 1 ? 0 : Quotient(i, l.run);
  return ((outer * l.runs + r) * l.inner + inner) * l.run + i - r * l.run;
}

CREMA_HOST_DEVICE inline int64_t GroupOfElement(const GroupLayout& l, int64_t at) {
  const int64_t plane = Quotient(at, l.run);
  if (l.inner == 1) return l.runs == 1 ? plane : Quotient(plane, l.runs);
  const int64_t row = Quotient(plane, l.inner), inner = plane - row * l.inner;
  return l.outer == 1 ? inner : Quotient(row, l.runs) * l.inner + inner;
}

// Returns true if a thread, not a team, sums a part of a group: when the elements of neighbouring
// groups are adjacent and those of one are not, or groups are small.
inline bool SumsByThread(const GroupLayout& layout) {
  return (layout.run == 1 && layout.inner > 1) || layout.GroupSize() < Team::kWarp;
}

// Returns true if groups are the columns of a matrix.
inline bool AreColumns(const GroupLayout& layout) { return layout.outer == 1 && layout.run == 1; }

// Returns the number of parts into which each group is divided; they are summed in parallel.
inline int64_t GroupParts(const GroupLayout& layout) {
  const int64_t kMostParts = AreColumns(layout) ? 2048 : 1024;
  const bool by_thread = SumsByThread(layout);
  // The number of threads or teams. Those of columns read two or four bytes at a time.
  const int64_t wanted = by_thread ? (AreColumns(layout) ? 1 << 17 : 1 << 16) : 1 << 10;
  const int64_t least = by_thread ? 16 : 8 * Team::kThreads;  // elements of a part
  const int64_t parts = wanted / std::max<int64_t>(1, layout.Groups());
  return std::clamp<int64_t>(std::min(parts, layout.GroupSize() / least), 1, kMostParts);
}

// Returns the number of values of scratch for SumGroups.
inline int64_t GroupSumsScratch(const GroupLayout& layout) {
  return GroupParts(layout) * layout.Groups();
}

// A term that also writes is split, so that reads can run ahead of writes: Read(group, place), and
// Take(group, place, value read), which writes and returns the summand.
template <typename Term>
concept ReadsFirst = requires(const Term& term) {
  term.Read(int64_t{}, int64_t{});
};

// The term of a sum of elements.
template <typename T>
struct ElementTerm {
  CREMA_HOST_DEVICE float Read(int64_t, int64_t at) const { return ToFloat(x[at]); }
  CREMA_HOST_DEVICE double Take(int64_t, int64_t, float value) const {
    return static_cast<double>(value);
  }
  const T* x;
};

// A term that depends on its group returns the term of one group: OfGroup(group).
template <typename Term>
CREMA_HOST_DEVICE auto TermOfGroup(const Term& term, int64_t group) {
  if constexpr (requires { term.OfGroup(group); }) {
    return term.OfGroup(group);
  } else {
    return term;
  }
}

template <typename Term>
CREMA_HOST_DEVICE auto ReadOfTerm(const Term& term, int64_t group, int64_t at) {
  if constexpr (ReadsFirst<Term>) {
    return term.Read(group, at);
  } else {
    return term(group, at);
  }
}
template <typename Term, typename Read>
CREMA_HOST_DEVICE auto TakeOfTerm(const Term& term, int64_t group, int64_t at, const Read& read) {
  if constexpr (ReadsFirst<Term>) {
    return term.Take(group, at, read);
  } else {
    return read;
  }
}

// As SumParts, for columns: a thread adds every n-th row, reading some ahead.
template <typename Value, typename Term, typename Put>
static void SumColumnParts(const CudaQueue& queue, const GroupLayout& layout, const Term& term,
                           const Put& put) {
  const int64_t groups = layout.Groups(), parts = GroupParts(layout), count = layout.Count();
  ForElements(queue, "SumColumnParts", parts * groups, [=] CREMA_HOST_DEVICE(int64_t index) {
    const int64_t g = index - Quotient(index, groups) * groups, step = parts * groups;
    const auto own = TermOfGroup(term, g);
    Value sum{};
    int64_t at = index;
    for (; at + (kReadAhead - 1) * step < count; at += kReadAhead * step) {
      decltype(ReadOfTerm(own, g, at)) read[kReadAhead];
      for (int k = 0; k < kReadAhead; ++k) read[k] = ReadOfTerm(own, g, at + k * step);
#ifdef __CUDA_ARCH__
      // Keeps nvcc from moving reads down between the sums, which leaves two of them in flight.
      asm volatile("" ::: "memory");
#endif
      for (int k = 0; k < kReadAhead; ++k) sum = sum + TakeOfTerm(own, g, at + k * step, read[k]);
    }
    for (; at < count; at += step) sum = sum + TakeOfTerm(own, g, at, ReadOfTerm(own, g, at));
    put(index, sum);
  });
}

// Queues the elements of all groups, in any order: body.OfGroup(group) returns a body of two parts,
// Read(i) and Write(i, what Read returned). If groups are columns, a thread takes elements of one
// group only.
template <typename Body>
static void ForGroupElements(const CudaQueue& queue, std::string_view name,
                             const GroupLayout& layout, const Body& body) {
  const int64_t count = layout.Count(), groups = layout.Groups();
  if (AreColumns(layout)) {
    const int64_t step = ThreadsAhead(count, groups);
    return ForElements(queue, name, std::min(step, count), [=] CREMA_HOST_DEVICE(int64_t t) {
      TakeAhead(t, step, count, body.OfGroup(t - Quotient(t, groups) * groups));
    });
  }
  ForElements(queue, name, count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const auto own = body.OfGroup(GroupOfElement(layout, i));
    own.Write(i, own.Read(i));
  });
}

// Calls put(part * groups + group, sum of that part).
template <typename Value, typename Term, typename Put>
static void SumParts(const CudaQueue& queue, const GroupLayout& layout, const Term& term,
                     const Put& put) {
  const int64_t groups = layout.Groups(), size = layout.GroupSize(), parts = GroupParts(layout);
  if (SumsByThread(layout) && AreColumns(layout)) {
    return SumColumnParts<Value>(queue, layout, term, put);
  }
  if (SumsByThread(layout)) {
    return ForElements(queue, "SumParts", parts * groups, [=] CREMA_HOST_DEVICE(int64_t index) {
      const int64_t part = Quotient(index, groups), g = index - part * groups;
      const auto own = TermOfGroup(term, g);
      Value sum{};
      for (int64_t i = part; i < size; i += parts) {
        const int64_t at = ElementOfGroup(layout, g, i);
        sum = sum + TakeOfTerm(own, g, at, ReadOfTerm(own, g, at));
      }
      put(index, sum);
    });
  }
  const int64_t length = (size + parts - 1) / parts;
  ForTeamsOf(queue, "SumParts", parts * groups, length,
             [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
               const int64_t part = Quotient(index, groups), g = index - part * groups;
               const int64_t first = part * length;
               const int64_t end = first + length < size ? first + length : size;
               const auto own = TermOfGroup(term, g);
               const Value sum = team.Reduce<Value>(
                   end - first, Value{},
                   [&](Value s, int64_t i) {
                     const int64_t at = ElementOfGroup(layout, g, first + i);
                     return s + TakeOfTerm(own, g, at, ReadOfTerm(own, g, at));
                   },
                   [](Value a, Value b) { return a + b; });
               team.For(1, [&](int64_t) { put(index, sum); });
             });
}

// Calls finish(group, the sum of its parts).
template <typename Value, typename Finish>
static void JoinParts(const CudaQueue& queue, int64_t groups, int64_t parts, const Value* sums,
                      const Finish& finish) {
  if (parts < Team::kWarp) {
    return ForElements(queue, "JoinParts", groups, [=] CREMA_HOST_DEVICE(int64_t g) {
      Value sum{};
      for (int64_t part = 0; part < parts; ++part) sum = sum + sums[part * groups + g];
      finish(g, sum);
    });
  }
  ForTeams(queue, "JoinParts", groups, [=] CREMA_HOST_DEVICE(const Team& team, int64_t g) {
    const Value sum = team.Reduce<Value>(
        parts, Value{}, [&](Value s, int64_t part) { return s + sums[part * groups + g]; },
        [](Value a, Value b) { return a + b; });
    team.For(1, [&](int64_t) { finish(g, sum); });
  });
}

// Calls finish(group, the sum of term(group, place of an element)) for each group, by one thread.
// The sum has the type of `term`: a number or a SumPair. Terms may be split (ReadsFirst), evaluated
// once for each element, and may depend on the group (TermOfGroup).
template <typename Value, typename Term, typename Finish>
static void SumGroups(const CudaQueue& queue, const GroupLayout& layout, const Term& term,
                      Value* scratch, const Finish& finish) {
  const int64_t parts = GroupParts(layout);
  if (parts == 1) return SumParts<Value>(queue, layout, term, finish);
  SumParts<Value>(queue, layout, term,
                  [=] CREMA_HOST_DEVICE(int64_t index, Value sum) { scratch[index] = sum; });
  JoinParts(queue, layout.Groups(), parts, scratch, finish);
}

// sums[group] += the sum of the elements of that group. `scratch` is that of SumGroups.
template <typename T>
static void AddGroupSums(const CudaQueue& queue, const GroupLayout& layout, const T* x,
                         double* scratch, T* sums) {
  SumGroups(queue, layout, ElementTerm<T>{x}, scratch,
            [=] CREMA_HOST_DEVICE(int64_t g, double sum) {
              sums[g] = FromFloat<T>(ToFloat(sums[g]) + static_cast<float>(sum));
            });
}

}  // namespace crema
