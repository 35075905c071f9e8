/* Runs a model on zeros and prints what it gives: run MODEL.crema */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "crema/crema.h"

enum { kMostInputs = 8, kMostAxes = 8 };

static int Fail(const crema_error* error) {
  fprintf(stderr, "%s\n", error->message);
  return 1;
}

static size_t Count(const crema_tensor* tensor) {
  size_t count = 1;
  for (size_t i = 0; i < tensor->axes; ++i) count *= (size_t)tensor->shape[i];
  return count;
}

/* Replaces dimensions of any size by 1. */
static int MakeInput(const crema_model* model, size_t index, crema_tensor* input, int64_t* shape,
                     crema_error* error) {
  if (crema_model_input(model, index, input, error) != CREMA_OK) return 0;
  if (input->axes > kMostAxes) return 0;
  for (size_t i = 0; i < input->axes; ++i) {
    shape[i] = input->shape[i] < 0 ? 1 : input->shape[i];
  }
  input->shape = shape;
  input->data = calloc(Count(input), input->type == CREMA_FLOAT32 ? 4 : 1);
  return input->data != NULL;
}

static int Print(crema_runner* runner, const crema_model* model, crema_error* error) {
  for (size_t o = 0; o < crema_model_output_count(model); ++o) {
    crema_tensor output;
    if (crema_model_output(model, o, &output, error) != CREMA_OK) return 0;
    if (crema_runner_output(runner, output.name, &output, error) != CREMA_OK) return 0;
    printf("%s:", output.name);
    for (size_t i = 0; i < output.axes; ++i) printf(" %" PRId64, output.shape[i]);
    printf("\n");
    for (size_t i = 0; i < Count(&output); ++i) printf("%g\n", ((const float*)output.data)[i]);
  }
  return 1;
}

int main(int argc, char** argv) {
  crema_error error = {CREMA_OK, ""};
  crema_model* model = NULL;
  crema_runner* runner = NULL;
  crema_tensor inputs[kMostInputs];
  int64_t shape[kMostInputs][kMostAxes];
  size_t count = 0;
  int ok = 1;

  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL.crema\n", argv[0]);
    return 2;
  }
  if (crema_model_open(argv[1], NULL, &model, &error) != CREMA_OK) return Fail(&error);
  ok = crema_model_input_count(model) <= kMostInputs &&
       crema_runner_new(model, &runner, &error) == CREMA_OK;
  while (ok && count < crema_model_input_count(model)) {
    ok = MakeInput(model, count, &inputs[count], shape[count], &error);
    count += (size_t)ok;
  }
  ok = ok && crema_runner_run(runner, inputs, count, &error) == CREMA_OK &&
       Print(runner, model, &error);
  for (size_t i = 0; i < count; ++i) free((void*)inputs[i].data);
  crema_runner_free(runner);
  crema_model_free(model);
  return ok ? 0 : Fail(&error);
}
