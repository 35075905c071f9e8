// Cost model of Winograd convolution. The constants are from bench/blocked_winograd_bench.cc, one
// core at a time, on a processor with two 512-bit units and 2 MiB of second-level cache a core.
#include "math/blocked_winograd.h"
#include "math/cpu/blocked_winograd_plan.h"

namespace crema {

using namespace blocked_winograd;  // NOLINT: this file is a part of it

namespace {

// Microseconds of one core.
constexpr double kProduct = 2 / 176e3;     // a multiply-add
constexpr double kInputTransform = 0.063;  // a tile of one block
constexpr double kOutputTransform = 0.046;
constexpr double kOutputGradientTransform = 0.058;
constexpr double kFilterRead = 4 / 25e3;        // an element
constexpr double kFilterTransform = 4 / 12e3;   // an element that is written
constexpr double kFilterGradient = 0.15;        // 16 filters
constexpr double kStart = 3;                    // of a team of threads
constexpr double kDirectFilterRead = 4 / 18e3;  // oneDNN's
constexpr double kWorthIt = 0.9;                // a net leaves less cache than a benchmark

double Double(int64_t count) { return static_cast<double>(count); }

// Returns the share of the work of the busiest thread.
double Share(int64_t units, int threads) {
  return Double(DivideUp(units, threads)) / Double(units);
}

double ConvolveTime(const Pass& p, int64_t batch, int threads, bool filters_ready) {
  const Cut cut = CutOf(p, batch, threads);
  const int64_t chunks = p.groups * cut.chunks;
  const double share = Share(cut.threads == Cut::Threads::kChunks ? chunks : cut.slabs, threads);
  const double groups = Double(p.groups) * share, tiles = groups * Double(p.Tiles(batch));
  const double filters = Double(FilterGroup(p));
  const double inputs = kInputTransform * Double(p.FromBlocks()) *
                        (cut.threads == Cut::Threads::kSlabs ? 1 / share : 1);
  const double once = filters_ready ? 0 : kFilterTransform * Double(p.groups) * filters / threads;
  return once + tiles * (kProduct * filters + inputs + kOutputTransform * Double(p.ToBlocks())) +
         share * Double(chunks) * kFilterRead * filters + (threads > 1 ? kStart : 0);
}

double GradientTime(const Pass& p, int64_t batch, int threads) {
  const GradientCut cut(p, batch);
  const double groups =
      Double(p.groups) * Share(p.groups * cut.from_slabs * cut.to_slabs * cut.parts, threads);
  const double transforms = kInputTransform * Double(p.FromBlocks() * cut.to_slabs) +
                            kOutputGradientTransform * Double(p.ToBlocks() * cut.from_slabs);
  return groups * Double(cut.tiles) * (kProduct * Double(FilterGroup(p)) + transforms) +
         groups * kFilterGradient * Double(p.FromBlocks() * kLanes * p.ToBlocks()) +
         (threads > 1 ? kStart : 0);
}

double DirectTime(const PackedConvShape& s, int64_t batch, int threads) {
  const double products = Double(batch * s.OutImage() * s.Depth());
  return (kProduct * products + kDirectFilterRead * Double(s.WeightCount())) / threads +
         (threads > 1 ? kStart : 0);
}

}  // namespace

double BlockedWinogradShare(const PackedConvShape& s, WinogradPass pass, int64_t batch, int threads,
                            bool weights_ready) {
  const double time =
      pass == WinogradPass::kWeightGradient
          ? GradientTime(ForwardPass(s), batch, threads)
          : ConvolveTime(pass == WinogradPass::kForward ? ForwardPass(s) : DataGradientPass(s),
                         batch, threads, weights_ready);
  return time / DirectTime(s, batch, threads);
}

bool BlockedWinogradPays(const PackedConvShape& s, WinogradPass pass, int64_t batch, int threads,
                         bool weights_ready) {
  if (batch == 0 || !HaveBlockedWinograd() || !IsBlockedWinogradShape(s)) return false;
  return BlockedWinogradShare(s, pass, batch, threads, weights_ready) < kWorthIt;
}

}  // namespace crema
