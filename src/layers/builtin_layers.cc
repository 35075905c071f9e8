// The explicit list of built-in layers: static registrars vanish from archives, a list does not.
#include "graph/registry.h"

#define CREMA_BUILTIN_LAYERS(LAYER) \
  LAYER(Accuracy)                   \
  LAYER(Concat)                     \
  LAYER(Convolution)                \
  LAYER(Data)                       \
  LAYER(Dropout)                    \
  LAYER(DummyData)                  \
  LAYER(Eltwise)                    \
  LAYER(EuclideanLoss)              \
  LAYER(Flatten)                    \
  LAYER(InnerProduct)               \
  LAYER(Input)                      \
  LAYER(LRN)                        \
  LAYER(Pooling)                    \
  LAYER(Power)                      \
  LAYER(ReLU)                       \
  LAYER(Reduction)                  \
  LAYER(Sigmoid)                    \
  LAYER(Silence)                    \
  LAYER(Softmax)                    \
  LAYER(SoftmaxWithLoss)            \
  LAYER(Split)                      \
  LAYER(TanH)

// Layers whose GPU rows are built where nvcc is there.
#define CREMA_BUILTIN_CUDA_LAYERS(LAYER) \
  LAYER(InnerProduct)                    \
  LAYER(ReLU)

namespace crema {

#define CREMA_DECLARE(name) void Register##name(Registry&);
#define CREMA_DECLARE_CUDA(name) void Register##name##Cuda(Registry&);
CREMA_BUILTIN_LAYERS(CREMA_DECLARE)
#ifdef CREMA_HAVE_HDF5
CREMA_DECLARE(HDF5Data)
#endif
#ifdef CREMA_HAVE_CUDA
CREMA_BUILTIN_CUDA_LAYERS(CREMA_DECLARE_CUDA)
#endif

Registry BuiltinRegistry() {
  Registry registry;
#define CREMA_REGISTER(name) Register##name(registry);
#define CREMA_REGISTER_CUDA(name) Register##name##Cuda(registry);
  CREMA_BUILTIN_LAYERS(CREMA_REGISTER)
#ifdef CREMA_HAVE_HDF5
  CREMA_REGISTER(HDF5Data)
#endif
#ifdef CREMA_HAVE_CUDA
  CREMA_BUILTIN_CUDA_LAYERS(CREMA_REGISTER_CUDA)
#endif
  return registry;
}

}  // namespace crema
