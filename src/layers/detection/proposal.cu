// Proposal on the GPU; see proposal.cc. One thread computes a box, one team processes an image. The
// host waits for the number of regions.
#include <limits>

#include "crema.pb.h"
#include "layers/detection/box_lists.cuh"
#include "layers/detection/device_boxes.cuh"
#include "layers/detection/fixed_list.h"
#include "layers/detection/proposal_boxes.h"

namespace crema {
namespace {

constexpr int64_t kColumns = 5;
constexpr int kMostAnchors = 64;  // they are kernel arguments

using Candidate = Ranked<float>;
using AnchorList = FixedList<Box, kMostAnchors>;

int64_t CountAnchors(const ProposalParameter& p) {
  const int64_t ratios = p.ratio_size() > 0 ? p.ratio_size() : 3;
  return ratios * (p.scale_size() > 0 ? p.scale_size() : 3);
}

struct Sizes {
  int64_t images;
  int64_t anchors;  // per position
  int64_t height;
  int64_t width;
  int64_t candidates;  // most that suppression of an image reads
  int64_t most;        // upper limit of regions per image

  CREMA_HOST_DEVICE int64_t places() const { return height * width; }
  CREMA_HOST_DEVICE int64_t boxes() const { return anchors * places(); }  // per image
};

Sizes SizesOf(const ProposalParameter& p, const Shape& scores) {
  Sizes e{.images = scores[0],
          .anchors = CountAnchors(p),
          .height = scores[2],
          .width = scores[3],
          .candidates = 0,
          .most = 0};
  e.candidates = std::min(e.boxes(), int64_t{p.pre_nms_topn()});
  e.most = std::min(e.candidates, int64_t{p.post_nms_topn()});
  return e;
}

struct Lists {
  Box* boxes;         // images x boxes, grouped by position
  float* scores;      // images x boxes; -infinity means too small
  Candidate* ranked;  // images x boxes
  Box* best;          // images x candidates
  double* worst;      // images x candidates
  ImageRows rows;
};

// `Element` is the type of the rows and scores, which come last.
template <typename Element>
struct AllLists : Lists {
  AllLists(const Sizes& e, ScratchCutter* cutter) {
    boxes = cutter->Take<Box>(e.images * e.boxes());
    scores = cutter->Take<float>(e.images * e.boxes());
    ranked = cutter->Take<Candidate>(e.images * e.boxes());
    best = cutter->Take<Box>(e.images * e.candidates);
    worst = cutter->Take<double>(e.images * e.candidates);
    rows = ImageRows::Cut(cutter, e.images, e.most);
    regions = cutter->Take<Element>(e.images * e.most * kColumns);
    region_scores = cutter->Take<Element>(e.images * e.most);
  }
  Element *regions, *region_scores;
};

// Computes the boxes of all anchors at all positions.
template <typename T>
void MakeBoxes(const GpuForward<T>& args, const ProposalParameter& p, const Sizes& sizes,
               const Lists& lists) {
  const AnchorList anchors = ProposalAnchors<AnchorList>(p);
  const Sizes e = sizes;
  const T *scores = args.x(0), *offsets = args.x(1), *images = args.x(2);
  const auto stride = static_cast<int64_t>(p.feat_stride());
  const auto min_size = static_cast<double>(p.min_size());
  Box* const boxes = lists.boxes;
  float* const box_scores = lists.scores;
  ForElements(args.queue, "ProposalBoxes", e.images * e.boxes(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t n = i / e.boxes();
    const int64_t at = i % e.boxes() / e.anchors;
    const int64_t a = i % e.anchors;
    BoxOffsets move{};
    for (int64_t k = 0; k < 4; ++k) {
      const T value = offsets[((n * e.anchors + a) * 4 + k) * e.places() + at];
      move[static_cast<size_t>(k)] = static_cast<double>(ToFloat(value));
    }
    const T* image = images + 3 * n;
    const double height = static_cast<double>(ToFloat(image[0])) - 1;
    const double width = static_cast<double>(ToFloat(image[1])) - 1;
    const double least = static_cast<double>(ToFloat(image[2])) * min_size;
    const Box anchor = ShiftBox(anchors.values[a], static_cast<double>(at % e.width * stride),
                                static_cast<double>(at / e.width * stride));
    const Box box = Clip(MoveAnchor(anchor, move), std::max(width, 0.0), std::max(height, 0.0));
    const bool large = box.width() + 1 >= least && box.height() + 1 >= least;
    boxes[i] = box;
    box_scores[i] = large ? ToFloat(scores[((2 * n + 1) * e.anchors + a) * e.places() + at])
                          : -std::numeric_limits<float>::infinity();
  });
}

// Writes rows[n * most ..]: the regions of image n, best first.
template <typename T>
void ChooseRegions(const CudaQueue& queue, const SuppressionRule& given, const Sizes& sizes,
                   const Lists& all, T* rows, T* row_scores) {
  const SuppressionRule rule = given;
  const Sizes e = sizes;
  const Lists lists = all;
  ForTeams(queue, "ProposalRegions", e.images, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const float* scores = lists.scores + n * e.boxes();
    const Box* boxes = lists.boxes + n * e.boxes();
    Candidate* ranked = lists.ranked + n * e.boxes();
    Box* best = lists.best + n * e.candidates;
    const int64_t found = Compact(
        team, e.boxes(),
        [&](int64_t i) { return scores[i] > -std::numeric_limits<float>::infinity(); },
        [&](int64_t i, int64_t place) {
          ranked[place] = Candidate{scores[i], static_cast<int32_t>(i)};
        });
    SortBestFirst(team, found, ranked);
    const int64_t candidates = found < e.candidates ? found : e.candidates;
    team.For(candidates, [&](int64_t i) { best[i] = boxes[ranked[i].index]; });
    const int64_t count =
        SuppressBoxes(team, candidates, best, rule, lists.worst + n * e.candidates,
                      [&](int64_t i, int64_t place) {
                        T* row = rows + (n * e.most + place) * kColumns;
                        row[0] = FromFloat<T>(static_cast<float>(n));
                        row[1] = FromFloat<T>(static_cast<float>(best[i].xmin));
                        row[2] = FromFloat<T>(static_cast<float>(best[i].ymin));
                        row[3] = FromFloat<T>(static_cast<float>(best[i].xmax));
                        row[4] = FromFloat<T>(static_cast<float>(best[i].ymax));
                        row_scores[n * e.most + place] = FromFloat<T>(ranked[i].score);
                      });
    team.For(1, [&](int64_t) { lists.rows.counts[n] = count; });
  });
}

struct GpuProposal {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const ProposalParameter& p = layer.param().proposal_param();
    const Sizes e = SizesOf(p, args.inputs[0].shape());
    ScratchCutter cutter(args.scratch);
    const AllLists<T> lists(e, &cutter);
    MakeBoxes(args, p, e, lists);
    const SuppressionRule rule{
        .threshold = double{p.nms_thresh()}, .units = BoxUnits::kPixels, .most = p.post_nms_topn()};
    ChooseRegions(args.queue, rule, e, lists, lists.regions, lists.region_scores);
    FillStarts(args.queue, lists.rows);
    PackRows(args.queue, lists.rows, kColumns, lists.regions, args.y(0));
    if (args.outputs.size() > 1) {
      PackRows(args.queue, lists.rows, 1, lists.region_scores, args.y(1));
    }
    const int64_t count = ReadRowCount(args.queue, lists.rows);
    args.output_shapes[0] = Shape({count, kColumns});
    if (args.outputs.size() > 1) args.output_shapes[1] = Shape({count, 1});
  }

  static Support Supports(const OpDesc& query) {
    if (CountAnchors(query.layer.param().proposal_param()) > kMostAnchors) {
      return Support::No("takes at most 64 anchors at a place");
    }
    return SupportsCudaFloats(query);
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const Sizes e = SizesOf(query.layer.param().proposal_param(), query.context.inputs[0].shape);
    return ScratchCutter::Booked([&](ScratchCutter* cutter) { AllLists<float>(e, cutter); });
  }
};

}  // namespace

void RegisterProposalCuda(Registry& registry) {
  registry.AddImplementation("Proposal", CudaImplementation<GpuProposal>());
}

}  // namespace crema
