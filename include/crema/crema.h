/* Runs trained models: the C interface of libcrema_deploy. For C++, see crema/deploy.h.
 *
 * Handles are opaque; freeing NULL has no effect. A model may be used by any number of threads at
 * once, a runner by one thread at a time. Models and runners may be freed in any order. Functions
 * that can fail return a status and write the reason to `error` unless it is NULL. Strings are
 * UTF-8, zero-terminated, and owned by the handle that returned them. */
#ifndef CREMA_CREMA_H_
#define CREMA_CREMA_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CREMA_C_API __attribute__((visibility("default")))
#else
#define CREMA_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum crema_status {
  CREMA_OK = 0,
  CREMA_INVALID_ARGUMENT = 1, /* the arguments do not fit the model, or it is not a model */
  CREMA_NOT_FOUND = 2,        /* a file does not exist */
  CREMA_UNSUPPORTED = 3,      /* not supported by this build */
  CREMA_DATA_LOSS = 4,        /* a file is truncated or altered, or an image is damaged */
  CREMA_IO = 5,               /* the operating system failed to read */
  CREMA_OUT_OF_MEMORY = 6,
  CREMA_DEVICE = 7,  /* the GPU failed */
  CREMA_INTERNAL = 8 /* a bug in Crema */
} crema_status;

typedef enum crema_type { CREMA_FLOAT32 = 1, CREMA_UINT8 = 2 } crema_type;

typedef struct crema_error {
  crema_status status;
  char message[1024]; /* truncated between characters if longer */
} crema_error;

/* Zero-initialize it and set struct_size to sizeof(crema_options). 0 threads means 1. */
typedef struct crema_options {
  size_t struct_size;
  int threads; /* per runner; up to 1024 */
  int use_gpu; /* 0: the CPU */
  int gpu;     /* GPU number */
} crema_options;

/* A view of host memory, row-major, outermost axis first. Describing an input or output of a model,
 * `data` is NULL and a dimension of -1 means any size. */
typedef struct crema_tensor {
  const char* name;
  crema_type type;
  size_t axes;
  const int64_t* shape; /* `axes` dimensions */
  const void* data;
} crema_tensor;

typedef struct crema_prediction {
  int index;         /* index of the class */
  float score;       /* output of the net */
  const char* label; /* "" if the model has none; owned by the model */
} crema_prediction;

typedef struct crema_detection {
  int index; /* index of the class */
  float score;
  const char* label; /* "" if the model has none; owned by the model */
  float box[4];      /* left, top, right, bottom in pixels of the image, clipped to it */
  size_t keypoint_count;
  const float* keypoints; /* x and y of each; owned by the runner until its next call */
} crema_detection;

typedef struct crema_model crema_model;
typedef struct crema_runner crema_runner;

/* Returns the version of the library: "0.1.0". */
CREMA_C_API const char* crema_version(void);

/* Loads a shared library with layer types for models that are opened later; its code runs in this
 * process. Thread safe. */
CREMA_C_API crema_status crema_load_plugin(const char* path, crema_error* error);

/* Opens a file written by `deploy export`, or an ONNX model, whose name ends in .onnx and whose
 * inputs have fixed sizes. `options` may be NULL. */
CREMA_C_API crema_status crema_model_open(const char* path, const crema_options* options,
                                          crema_model** model, crema_error* error);
/* Opens a net as text (a deploy prototxt) and its weights: caffemodels, separated by commas; later
 * ones add and override. */
CREMA_C_API crema_status crema_model_from_caffe(const char* net, const char* weights,
                                                const crema_options* options, crema_model** model,
                                                crema_error* error);
/* Opens a cascade of nets that detects: the file that names them, as --cascade of `deploy detect`.
 * Its runners have crema_runner_detect alone. */
CREMA_C_API crema_status crema_model_open_cascade(const char* path, const crema_options* options,
                                                  crema_model** model, crema_error* error);
CREMA_C_API void crema_model_free(crema_model* model);
CREMA_C_API const char* crema_model_name(const crema_model* model);
CREMA_C_API const char* crema_model_task(const crema_model* model);
CREMA_C_API size_t crema_model_label_count(const crema_model* model);
CREMA_C_API const char* crema_model_label(const crema_model* model, size_t index); /* or NULL */
CREMA_C_API size_t crema_model_input_count(const crema_model* model);
CREMA_C_API size_t crema_model_output_count(const crema_model* model);
CREMA_C_API crema_status crema_model_input(const crema_model* model, size_t index,
                                           crema_tensor* info, crema_error* error);
CREMA_C_API crema_status crema_model_output(const crema_model* model, size_t index,
                                            crema_tensor* info, crema_error* error);

CREMA_C_API crema_status crema_runner_new(const crema_model* model, crema_runner** runner,
                                          crema_error* error);
CREMA_C_API void crema_runner_free(crema_runner* runner);
/* Takes each input once, in any order, of any shape that the net accepts. */
CREMA_C_API crema_status crema_runner_run(crema_runner* runner, const crema_tensor* inputs,
                                          size_t count, crema_error* error);
/* Returns an output of the last run; there are none after a failed run. Data and shape are valid
 * until the next call of run or classify. */
CREMA_C_API crema_status crema_runner_output(crema_runner* runner, const char* name,
                                             crema_tensor* output, crema_error* error);
/* Decodes an image file in memory, preprocesses it as the model specifies, and returns the `count`
 * best classes, best first, at most `most`. */
CREMA_C_API crema_status crema_runner_classify(crema_runner* runner, const void* image,
                                               size_t bytes, crema_prediction* predictions,
                                               size_t most, size_t* count, crema_error* error);

/* Stands for the confidence of the model: that of its file, or 0.6. */
#define CREMA_DEFAULT_CONFIDENCE (-1.0)

/* For models that detect: does the same, and returns the boxes with scores above `confidence`, best
 * first: the first `most` of them. `count` becomes the number of all. */
CREMA_C_API crema_status crema_runner_detect(crema_runner* runner, const void* image, size_t bytes,
                                             double confidence, crema_detection* detections,
                                             size_t most, size_t* count, crema_error* error);

/* For models that segment: does the same, and returns the best class of each pixel of the image:
 * `height` rows of `width` bytes, owned by the runner until its next call. */
CREMA_C_API crema_status crema_runner_segment(crema_runner* runner, const void* image, size_t bytes,
                                              const unsigned char** classes, size_t* width,
                                              size_t* height, crema_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CREMA_CREMA_H_ */
