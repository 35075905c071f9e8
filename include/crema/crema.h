/* Running trained models: the C interface of libcrema_deploy, for C and all that can call it. C++
 * has crema/deploy.h.
 *
 * Handles are opaque; NULL may be freed. A model may be used by any number of threads at once, a
 * runner by one at a time; models and runners may be freed in any order. Functions that can fail
 * return a status and, where `error` is not NULL, say why in it. Strings are UTF-8, end in a zero,
 * and belong to the handle that they were asked of. */
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
  CREMA_INVALID_ARGUMENT = 1, /* what was asked for does not fit the model, or is no model */
  CREMA_NOT_FOUND = 2,        /* a file does not exist */
  CREMA_UNSUPPORTED = 3,      /* understood, but this build cannot do it */
  CREMA_DATA_LOSS = 4,        /* a file is truncated or altered, or an image is broken */
  CREMA_IO = 5,               /* the operating system refused to read */
  CREMA_OUT_OF_MEMORY = 6,
  CREMA_DEVICE = 7,  /* the GPU failed */
  CREMA_INTERNAL = 8 /* a bug of Crema */
} crema_status;

typedef enum crema_type { CREMA_FLOAT32 = 1, CREMA_UINT8 = 2 } crema_type;

typedef struct crema_error {
  crema_status status;
  char message[1024]; /* cut, between characters, where it is longer */
} crema_error;

/* Set it to zeros; struct_size to sizeof(crema_options). Threads 0 is 1. */
typedef struct crema_options {
  size_t struct_size;
  int threads; /* of one runner; up to 1024 */
  int use_gpu; /* 0: the CPU */
  int gpu;     /* its number */
} crema_options;

/* Elements that belong to somebody else, row-major, extents outermost first. Of what a model takes
 * and gives, `data` is NULL and an extent of -1 may be any. */
typedef struct crema_tensor {
  const char* name;
  crema_type type;
  size_t axes;
  const int64_t* extents;
  const void* data;
} crema_tensor;

typedef struct crema_prediction {
  int index;         /* of the class */
  float score;       /* as the net gives it */
  const char* label; /* "" where the model has none for it; of the model */
} crema_prediction;

typedef struct crema_model crema_model;
typedef struct crema_runner crema_runner;

/* The version of the library: "0.1.0". */
CREMA_C_API const char* crema_version(void);

/* Opens a file of `deploy export`. `options` may be NULL. */
CREMA_C_API crema_status crema_model_open(const char* path, const crema_options* options,
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
/* Each input once, in any order, of any extents that the net takes. */
CREMA_C_API crema_status crema_runner_run(crema_runner* runner, const crema_tensor* inputs,
                                          size_t count, crema_error* error);
/* Of the last run; after one that failed there are none. Elements and extents are valid until the
 * next call of run or classify. */
CREMA_C_API crema_status crema_runner_output(crema_runner* runner, const char* name,
                                             crema_tensor* output, crema_error* error);
/* Decodes an image file in memory, prepares it as the model says, and gives the best classes, best
 * first: `count` of them, at most `most`. */
CREMA_C_API crema_status crema_runner_classify(crema_runner* runner, const void* image,
                                               size_t bytes, crema_prediction* predictions,
                                               size_t most, size_t* count, crema_error* error);

#ifdef __cplusplus
}
#endif

#endif /* CREMA_CREMA_H_ */
