/* A plugin in C, whose description is altered by the definitions of CMakeLists.txt: that of another
 * version of the interface, or a faulty one. */
#include <crema/plugin.h>
#include <string.h>

#ifndef ABI
#define ABI CREMA_PLUGIN_ABI
#endif
#ifndef LAYER_SIZE
#define LAYER_SIZE sizeof(crema_plugin_layer)
#endif
#ifndef NAME
#define NAME "interface"
#endif
#ifndef TYPE
#define TYPE "PluginNegate"
#endif
#ifndef FORWARD
#define FORWARD Forward
#endif

static int32_t Create(const char* param_str, void** layer, crema_plugin_error* error) {
  (void)layer;
  if (strcmp(param_str, "bad") != 0) return CREMA_PLUGIN_OK;
  strcpy(error->message, "a bad parameter");
  return CREMA_PLUGIN_UNSUPPORTED;
}

static void Destroy(void* layer) { (void)layer; }

static int32_t Infer(const void* layer, crema_plugin_infer* infer, crema_plugin_error* error) {
  (void)layer;
  (void)error;
  infer->tops[0].axes = infer->bottoms[0].axes;
  memcpy(infer->tops[0].sizes, infer->bottoms[0].sizes,
         (size_t)infer->bottoms[0].axes * sizeof(int64_t));
  infer->reach = CREMA_PLUGIN_REACH_ELEMENT;
  return CREMA_PLUGIN_OK;
}

static void Negate(const crema_plugin_pass* pass, const void* from, void* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (pass->type == CREMA_PLUGIN_FLOAT32) ((float*)to)[i] = -((const float*)from)[i];
    if (pass->type == CREMA_PLUGIN_FLOAT64) ((double*)to)[i] = -((const double*)from)[i];
  }
}

#ifndef NO_FORWARD
static int32_t Forward(const void* layer, const crema_plugin_pass* pass,
                       crema_plugin_error* error) {
  (void)layer;
  (void)error;
  Negate(pass, pass->bottoms[0].data, pass->tops[0].data, pass->tops[0].count);
  return CREMA_PLUGIN_OK;
}
#endif

static int32_t Backward(const void* layer, const crema_plugin_pass* pass,
                        crema_plugin_error* error) {
  (void)layer;
  (void)error;
  Negate(pass, pass->top_gradients[0].data, pass->bottom_gradients[0].data,
         pass->bottom_gradients[0].count);
  return CREMA_PLUGIN_OK;
}

/* As a later version of the interface might have it: members that this one does not know. */
typedef struct longer_layer {
  crema_plugin_layer known;
  void* later[4];
} longer_layer;

static const longer_layer kLayer = {.known = {.struct_size = LAYER_SIZE,
                                              .type = TYPE,
                                              .min_bottoms = 1,
                                              .max_bottoms = 1,
                                              .min_tops = 1,
                                              .max_tops = 1,
                                              .create = Create,
                                              .destroy = Destroy,
                                              .infer = Infer,
                                              .forward = FORWARD,
                                              .backward = Backward},
                                    .later = {"", "", "", ""}};
static const crema_plugin_layer* const kLayers[] = {&kLayer.known};
static const crema_plugin_info kInfo = {sizeof(kInfo), ABI, NAME, "1.0", 1, kLayers};

#ifndef NO_ENTRY
const crema_plugin_info* crema_plugin(void) { return &kInfo; }
#else
const crema_plugin_info* no_crema_plugin(void) { return &kInfo; }
#endif
