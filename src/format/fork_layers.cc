#include "format/fork_layers.h"

#include <algorithm>

#include "core/strings.h"
#include "format/fork_rewrites.h"

namespace crema {
namespace {

constexpr std::string_view kNvidia = "NVCaffe";
constexpr std::string_view kIntel = "IntelCaffe";
constexpr std::string_view kDeepLab = "DeepLab";
constexpr std::string_view kFlowNet = "FlowNet";
constexpr std::string_view kRistretto = "Ristretto";
constexpr std::string_view kSurgery = "dynamic network surgery";
constexpr std::string_view kOcr = "text recognition (warp-ctc ports)";

constexpr std::string_view kOneByOne = "with one bottom and one top";
constexpr std::string_view kNoYoloTraining =
    "not supported: training of YOLO heads; for a net in use, leave it out and let "
    "YoloDetectionOutput (YOLOv2) or Yolov3DetectionOutput read the last convolutions";
constexpr std::string_view kPairs =
    "`crema new --task=segment` writes images with their label map as fourth channel, which one "
    "Data layer and a Slice read, so that random changes move both";
constexpr std::string_view kNoMat =
    "use HDF5Data to read and HDF5Output to write; scipy converts .mat files to HDF5";
constexpr std::string_view kNoField =
    "not supported: mean-field inference of random fields; leave the layer out, since its bottom "
    "has the scores already, and run a CRF on the output of `deploy run`";
constexpr std::string_view kFlowFiles =
    "not supported: files of optical flow and pictures as layers; convert them to HDF5 (HDF5Data) "
    "or give them to a net with Input layers (deploy run)";
constexpr std::string_view kFlowAugmentation =
    "not supported: one change drawn for several blobs; change the pictures before they are "
    "stored, or use transform_param { augment_param } of a Data layer";
constexpr std::string_view kWarpCtc =
    "use CTCLoss with bottoms logits (T x N x C), labels (N x L) and, if needed, lengths, and "
    "ctc_loss_param { blank_label zero_infinity: true }; the gradients of the ports are not "
    "divided "
    "by the batch size N, so that loss_weight: N gives theirs";
constexpr std::string_view kQuantize =
    "use the layer without 'Ristretto' in its type; `deploy export --precision=int8` makes 8-bit "
    "models";

constexpr ForkLayer kForkLayers[] = {
    {"DetectNetTransformation", kNvidia,
     "not supported: training of DetectNet; AnnotatedData and MultiBoxLoss train detectors (see "
     "models/ssd300)"},
    {"TRT", kNvidia,
     "write the layers that the engine was made from; weights of an engine file cannot be read"},

    {"BoxData", kIntel, "use AnnotatedData, which reads boxes for detectors"},
    {"EvalDetection", kIntel,
     "leave it out and use `evaluate`, which scores the boxes of a detector"},
    {"MKLBatchNorm", kIntel, kOneByOne},
    {"MnActivation", kIntel, kOneByOne},
    {"SpatialDropout", kIntel,
     "with one bottom, one top and the ratio in dropout_param, since the fork ignores "
     "spatial_dropout_param"},

    {"RegionLoss", "IntelCaffe, MobileNet-YOLO", kNoYoloTraining},
    {"YoloV3Loss", "YOLOv3 ports", kNoYoloTraining},
    {"Yolov3", "MobileNet-YOLO", kNoYoloTraining},
    {"Region", "YOLOv2 ports",
     "use YoloDetectionOutput { yolo_detection_output_param { num_classes num_box biases } }"},

    {"ImageSegData", kDeepLab, kPairs},
    {"DenseImageData", "SegNet", kPairs},
    {"SegAccuracy", kDeepLab,
     "use Accuracy { accuracy_param { ignore_label } }; `evaluate` reports the mean IoU"},
    {"UniqueLabel", kDeepLab,
     "not supported: labels of a picture from those of its pixels; store them with the pictures"},
    {"DenseCRF", kDeepLab, kNoField},
    {"MultiStageMeanfield", "CRF-RNN", kNoField},
    {"MatRead", kDeepLab, kNoMat},
    {"MatWrite", kDeepLab, kNoMat},

    {"BoxOutput", "MS-CNN",
     "not supported: its decoding; NonMaxSuppression chooses boxes, and Proposal and "
     "DetectionOutput decode those of Faster R-CNN and SSD"},
    {"SimplerNMS", "OpenVINO, Clarifai",
     "use Proposal { proposal_param { feat_stride min_size pre_nms_topn post_nms_topn nms_thresh "
     "ratio scale } }"},
    {"PriorBoxClustered", "OpenVINO",
     "with two bottoms, one top, width, as many height and without min_size, which the fork "
     "ignores"},

    {"CoupledClusterLoss", "vehicle re-identification",
     "not supported: distances to the centre of a cluster; TripletLoss and CenterLoss train "
     "similar features"},
    {"TripletData", "FaceNet ports",
     "write anchors, positives and negatives into three data sets in the same order, read them "
     "with three Data layers, and use TripletLoss"},

    {"WarpCTC", kOcr, kWarpCtc},
    {"WarpCTCLoss", kOcr, kWarpCtc},
    {"CTCDecoder", kOcr,
     "use CTCGreedyDecoder, or CTCBeamSearchDecoder { ctc_decoder_param { beam_width } }, with "
     "bottoms scores (T x N x C) and indicators (T x N); ContinuationIndicator makes the latter"},
    {"Lstm", "caffe-lstm",
     "with one or two bottoms, one top, lstm_param { batch_size } and without clipping_threshold; "
     "else use LSTM { recurrent_param { num_output } }, which takes T x N x I and indicators T x "
     "N"},
    {"DLSTM", "LSTM ports before Caffe's own",
     "use LSTM { recurrent_param { num_output } } twice and add their outputs; weights of the port "
     "have another order and must be trained again"},

    {"Correlation1D", "DispNet",
     "not supported: displacements along one axis; Correlation compares over both"},
    {"FlowWarp", kFlowNet,
     "use GridSample, whose grid holds positions from -1 to 1 where the flow holds distances in "
     "pixels"},
    {"ChannelNorm", kFlowNet, kOneByOne},
    {"DataAugmentation", kFlowNet, kFlowAugmentation},
    {"GenerateAugmentationParameters", kFlowNet, kFlowAugmentation},
    {"CustomData", kFlowNet,
     "use Data with one data set for each picture of the pair and for the flow, in the same order"},
    {"Accum", kFlowNet,
     "with two or more bottoms, one top and accum_param { have_reference: true } alone; else "
     "enlarge each bottom with Interp { interp_param { height width } } and join them with Concat"},
    {"Mean", kFlowNet,
     "with as many tops as bottoms and mean_param { value } in place of a file; else use "
     "transform_param { mean_file } of the data layer"},
    {"LpqLoss", kFlowNet,
     "with one or two bottoms, one top, one p and one q, and without normalize_by_num_entries"},
    {"Resample", kFlowNet,
     "use Resize { resize_param { height width interpolation antialias exclude_outside: true } }, "
     "which computes the same if both sides change by one factor (for CUBIC with cubic_coeff_a: "
     "-0.5); the fork takes half the other axis' factor in its positions"},
    {"Downsample", kFlowNet,
     "use Resize { resize_param { height width align_corners: true antialias: true } }, whose "
     "kernel "
     "is nearly the same"},
    {"BilinearInterpolation", "segmentation ports",
     "with one top and either a second bottom of the wanted size, or "
     "bilinear_interpolation_param { interpolation_factor }"},
    {"FloReader", kFlowNet, kFlowFiles},
    {"FloWriter", kFlowNet, kFlowFiles},
    {"ImgReader", kFlowNet, kFlowFiles},
    {"ImgWriter", kFlowNet, kFlowFiles},
    {"Reader", kFlowNet, kFlowFiles},
    {"Writer", kFlowNet, kFlowFiles},

    {"CReLU", "ports of CReLU", kOneByOne},
    {"SyncBN", "yjxiong's Caffe", "with one bottom, one top and without bn_param { frozen }"},
    {"BatchReNorm", "ports of batch renormalisation",
     "not supported: renormalised statistics; GroupNorm does not depend on the batch"},
    {"GRN", "OpenVINO", "with one bottom, one top, a bias of 0 or more and without dummy_backward"},
    {"Padding", "several forks",
     "with one bottom, one top and without pad_to_power_of_2; else use Pad { pad_param { axis "
     "pad_before pad_after mode value } }"},
    {"PadChannel", "ports of residual nets",
     "with one bottom, one top and pad_channel_param { num_channels_to_pad } above 0"},
    {"RingPad", "nets for panoramas",
     "with one bottom, one top, an axis from -4 to 3 and pad from 0"},
    {"BatchReduction", "temporal segment networks, PSPNet",
     "with one bottom, one top, operation SUM or MEAN, levels from 1 to 1024 and without pos and "
     "other fields of reduction_param; else use "
     "Reduction"},
    {"MultiLabelImageData", "multi-label ports",
     "use ImageData { image_data_param { label_count } }, which reads several numbers after each "
     "path"},

    {"ConvolutionRistretto", kRistretto, kQuantize},
    {"DeconvolutionRistretto", kRistretto, kQuantize},
    {"FcRistretto", kRistretto,
     "use InnerProduct, whose weights are the same; `deploy export --precision=int8` makes 8-bit "
     "models"},
    {"LRNRistretto", kRistretto, kQuantize},
    {"SqueezeConvolution", kSurgery,
     "use Convolution with the first two blobs; its masks are not supported"},
    {"SqueezeInnerProduct", kSurgery,
     "use InnerProduct with the first two blobs; its masks are not supported"},
};

}  // namespace

std::span<const ForkLayer> ForkLayers() { return kForkLayers; }

std::string ForkLayerMessage(std::string_view type) {
  const auto* const found = std::ranges::find(kForkLayers, type, &ForkLayer::type);
  if (found == std::end(kForkLayers)) return "";
  return StrCat("layer type '", type, "' comes from ", found->fork, " and ",
                HasForkRewrite(type) ? "works here only " : "is not in Crema: ", found->instead);
}

}  // namespace crema
