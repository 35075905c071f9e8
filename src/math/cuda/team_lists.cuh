// Lists that a team fills and sorts, in the same order in each run and on the CPU.
#pragma once

#include "math/cuda/launch.cuh"

namespace crema {

// Calls put(i, place) for each i of 0 .. count - 1 with keeps(i), in order: place = 0, 1, ...
// Returns their number. The writes of `put` must not change the result of `keeps`.
template <typename Keeps, typename Put>
CREMA_HOST_DEVICE int64_t Compact(const Team& team, int64_t count, const Keeps& keeps,
                                  const Put& put) {
  const int64_t piece = (count + Team::kThreads - 1) / Team::kThreads;
  const auto end = [=](int64_t t) { return (t + 1) * piece < count ? (t + 1) * piece : count; };
  float* kept = team.Shared();  // by thread; exact, as no piece has 2^24 elements
  team.For(Team::kThreads, [&](int64_t t) {
    int64_t number = 0;
    for (int64_t i = t * piece; i < end(t); ++i) number += keeps(i) ? 1 : 0;
    kept[t] = static_cast<float>(number);
  });
  team.For(Team::kThreads, [&](int64_t t) {
    int64_t place = 0;
    for (int64_t before = 0; before < t; ++before) place += static_cast<int64_t>(kept[before]);
    for (int64_t i = t * piece; i < end(t); ++i) {
      if (keeps(i)) put(i, place++);
    }
  });
  return team.Sum(Team::kThreads, [&](int64_t t) { return static_cast<int64_t>(kept[t]); });
}

// An element of a list with its score, which is a number.
template <typename Score>
struct Ranked {
  Score score;
  int32_t index;
};

// Best first; equal ones by their index, so that no two compare equal.
template <typename Score>
CREMA_HOST_DEVICE inline bool IsBetter(const Ranked<Score>& a, const Ranked<Score>& b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

// Exchanges items[i] and items[i ^ mask] if the later one belongs before the earlier.
template <typename Item, typename Before>
CREMA_HOST_DEVICE void ExchangePairs(const Team& team, int64_t count, int64_t mask, Item* items,
                                     const Before& before) {
  team.For(count, [&](int64_t i) {
    const int64_t other = i ^ mask;
    if (other <= i || other >= count || !before(items[other], items[i])) return;
    const Item item = items[i];
    items[i] = items[other];
    items[other] = item;
  });
}

// A bitonic sort of any number of items: all exchanges put the first one first, so items beyond the
// end, which would be the last, never move. K. E. Batcher: Sorting networks and their applications,
// 1968.
template <typename Item, typename Before>
CREMA_HOST_DEVICE void Sort(const Team& team, int64_t count, Item* items, const Before& before) {
  for (int64_t block = 2; block < 2 * count; block *= 2) {
    ExchangePairs(team, count, block - 1, items, before);
    for (int64_t stride = block / 4; stride > 0; stride /= 2) {
      ExchangePairs(team, count, stride, items, before);
    }
  }
}

template <typename Score>
CREMA_HOST_DEVICE void SortBestFirst(const Team& team, int64_t count, Ranked<Score>* items) {
  Sort(team, count, items,
       [](const Ranked<Score>& a, const Ranked<Score>& b) { return IsBetter(a, b); });
}

}  // namespace crema
