// No more than FEW_THREADS (of the environment) threads live at a time, besides the first one, as in a
// control group with a limit of processes. Preloaded into a command, or part of a test program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long live;

struct Call {
  void* (*run)(void*);
  void* argument;
};

static void End(void* unused) {
  (void)unused;
  atomic_fetch_sub(&live, 1);
}

static void* Run(void* argument) {
  struct Call call = *(struct Call*)argument;
  free(argument);
  void* result = NULL;
  pthread_cleanup_push(End, NULL);
  result = call.run(call.argument);
  pthread_cleanup_pop(1);
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      dlsym(RTLD_NEXT, "pthread_create");
  const char* most = getenv("FEW_THREADS");
  if (atomic_fetch_add(&live, 1) >= (most == NULL ? LONG_MAX : atol(most))) {
    atomic_fetch_sub(&live, 1);
    return EAGAIN;
  }
  struct Call* call = malloc(sizeof(*call));
  call->run = run;
  call->argument = argument;
  const int code = real(thread, attributes, Run, call);
  if (code != 0) {
    atomic_fetch_sub(&live, 1);
    free(call);
  }
  return code;
}
