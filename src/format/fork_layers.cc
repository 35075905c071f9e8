#include "format/fork_layers.h"

#include <algorithm>

#include "core/strings.h"

namespace crema {
namespace {

constexpr std::string_view kNvidia = "NVCaffe";
constexpr std::string_view kIntel = "IntelCaffe";
constexpr std::string_view kDeepLab = "DeepLab";
constexpr std::string_view kFlowNet = "FlowNet";
constexpr std::string_view kRistretto = "Ristretto";
constexpr std::string_view kSurgery = "dynamic network surgery";
constexpr std::string_view kOcr = "text recognition (warp-ctc ports)";

constexpr std::string_view kNoYoloTraining =
    "not supported: training of YOLO heads; for a net in use, leave it out and let "
    "YoloDetectionOutput (YOLOv2) or Yolov3DetectionOutput read the last convolutions";
constexpr std::string_view kPairs =
    "write images and label maps into two data sets in the same order (convert_imageset) and read "
    "them with two Data layers, as in models/fcn8s";
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
constexpr std::string_view kResize =
    "use Resize { resize_param { height width interpolation } } or Interp { interp_param }";
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
    {"MKLBatchNorm", kIntel,
     "use BatchNorm { batch_norm_param { use_weight_bias: true } }, which reads the same weights"},
    {"MnActivation", kIntel,
     "leave it out and let its readers read its bottom: on one machine it only copies"},
    {"SpatialDropout", kIntel, "drop whole channels with a factor for each of them",
     "layer { name: 'ones' type: 'DummyData' top: 'ones' dummy_data_param { shape { dim: 4 dim: 6 "
     "} data_filler { type: 'constant' value: 1 } } } layer { name: 'drop' type: 'Dropout' bottom: "
     "'ones' top: 'drop' dropout_param { dropout_ratio: 0.5 } } layer { name: 'y' type: 'Scale' "
     "bottom: 'x' bottom: 'drop' top: 'y' scale_param { axis: 0 } }"},

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
     "use PriorBox { prior_box_param { width height step_w step_h offset variance clip } }"},

    {"CoupledClusterLoss", "vehicle re-identification",
     "not supported: distances to the centre of a cluster; TripletLoss and CenterLoss train "
     "similar features"},
    {"TripletData", "FaceNet ports",
     "write anchors, positives and negatives into three data sets in the same order, read them "
     "with three Data layers, and use TripletLoss"},

    {"WarpCTC", kOcr,
     "use CTCLoss with bottoms logits (T x N x C), labels (N x L) and, if needed, lengths; "
     "ctc_loss_param { blank_label } names the blank"},
    {"WarpCTCLoss", kOcr,
     "use CTCLoss with bottoms logits (T x N x C), labels (N x L) and, if needed, lengths; "
     "ctc_loss_param { blank_label } names the blank"},
    {"CTCDecoder", kOcr,
     "use CTCGreedyDecoder, or CTCBeamSearchDecoder { ctc_decoder_param { beam_width } }, with "
     "bottoms scores (T x N x C) and indicators (T x N); ContinuationIndicator makes the latter"},
    {"Lstm", "LSTM ports before Caffe's own",
     "use LSTM { recurrent_param { num_output } }, which takes T x N x I and indicators T x N; "
     "weights of the port have another order and must be trained again"},
    {"DLSTM", "LSTM ports before Caffe's own",
     "use LSTM { recurrent_param { num_output } } twice and add their outputs; weights of the port "
     "have another order and must be trained again"},

    {"Correlation1D", "DispNet",
     "not supported: displacements along one axis; Correlation compares over both"},
    {"FlowWarp", kFlowNet,
     "use GridSample, whose grid holds positions from -1 to 1 where the flow holds distances in "
     "pixels"},
    {"ChannelNorm", kFlowNet, "take the norm over the channels",
     "layer { name: 'y' type: 'Reduction' bottom: 'x' top: 'y' reduction_param { operation: L2 "
     "axes: 1 keep_dims: true } }"},
    {"DataAugmentation", kFlowNet, kFlowAugmentation},
    {"GenerateAugmentationParameters", kFlowNet, kFlowAugmentation},
    {"CustomData", kFlowNet,
     "use Data with one data set for each picture of the pair and for the flow, in the same order"},
    {"Accum", kFlowNet,
     "use Reduction { reduction_param { operation: MEAN } } over the axes that are summed"},
    {"Mean", kFlowNet,
     "use transform_param { mean_value } of the data layer, or Bias with the means"},
    {"LpqLoss", kFlowNet, "use L1Loss (p 1, q 1) or EuclideanLoss; other exponents: not supported"},
    {"Resample", kFlowNet, kResize},
    {"Downsample", kFlowNet, kResize},
    {"BilinearInterpolation", "segmentation and detection ports", kResize},
    {"FloReader", kFlowNet, kFlowFiles},
    {"FloWriter", kFlowNet, kFlowFiles},
    {"ImgReader", kFlowNet, kFlowFiles},
    {"ImgWriter", kFlowNet, kFlowFiles},
    {"Reader", kFlowNet, kFlowFiles},
    {"Writer", kFlowNet, kFlowFiles},

    {"CReLU", "ports of CReLU", "concatenate both signs",
     "layer { name: 'minus' type: 'Power' bottom: 'x' top: 'minus' power_param { scale: -1 } } "
     "layer { name: 'both' type: 'Concat' bottom: 'x' bottom: 'minus' top: 'both' } layer { name: "
     "'y' type: 'ReLU' bottom: 'both' top: 'y' }"},
    {"SyncBN", "ports for several GPUs",
     "use BN { bn_param } or BatchNorm, whose statistics are those of one device; GroupNorm does "
     "not depend on the batch"},
    {"BatchReNorm", "ports of batch renormalisation",
     "not supported: renormalised statistics; GroupNorm does not depend on the batch"},
    {"GRN", "OpenVINO", "divide by the norm over the channels (here with bias 1e-6)",
     "layer { name: 'y' type: 'Normalize' bottom: 'x' top: 'y' param { lr_mult: 0 } norm_param { "
     "across_spatial: false eps: 1e-6 } }"},
    {"Padding", "several forks", "use Pad { pad_param { axis pad_before pad_after mode value } }"},
    {"PadChannel", "ports of residual nets", "append channels of 0 (here 8)",
     "layer { name: 'y' type: 'Pad' bottom: 'x' top: 'y' pad_param { axis: 1 pad_before: 0 "
     "pad_after: 8 pad_after: 0 pad_after: 0 } }"},
    {"RingPad", "nets for panoramas", "pad with the other end (here 1 column on each side)",
     "layer { name: 'y' type: 'Pad' bottom: 'x' top: 'y' pad_param { axis: 3 pad: 1 mode: WRAP } "
     "}"},
    {"BatchReduction", "temporal segment networks, PSPNet",
     "average groups of items (here 2 items of 6 values)",
     "layer { name: 'groups' type: 'Reshape' bottom: 'x' top: 'groups' reshape_param { shape { "
     "dim: -1 dim: 2 dim: 6 } } } layer { name: 'y' type: 'Reduction' bottom: 'groups' top: 'y' "
     "reduction_param { operation: MEAN axes: 1 } }"},
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
  return StrCat("layer type '", type, "' comes from ", found->fork,
                " and is not in Crema: ", found->instead,
                found->layers.empty() ? "" : StrCat("; from blob x to y: ", found->layers));
}

}  // namespace crema
