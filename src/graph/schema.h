// Forward declarations of crema.proto, for headers that need no more: crema.pb.h has 100,000 lines.
#pragma once

namespace crema {

class BlobProto;
class FillerParameter;
class LayerParameter;
class LayerState;
enum Phase : int;
enum Precision : int;

}  // namespace crema
